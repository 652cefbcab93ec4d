"""A dual AR is matched to another codec: entries get their old indices, and frames their old embeddings."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from engine.families.s2.codec import codec_files, load_codec
from tests.paths import BUNDLED
from tests.training.codec.test_train_codec import have_equal_weights
from training.codec.quantizer import codebooks_of
from training.codec.train import export
from training.dual_ar.matching import fitted, match, order_like
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance

SIZES = (1024, *[512] * 8)  # of the bundled model


def test_entries_of_a_permuted_codebook_get_their_old_indices() -> None:
    rng = np.random.default_rng(0)
    old = rng.zipf(1.5, 4000) % 16  # some entries are far more frequent than others
    shuffled = rng.permutation(16)
    new = shuffled[old]
    noise = rng.random(4000) < 0.2
    new[noise] = rng.integers(0, 16, noise.sum())
    assert np.array_equal(order_like(old, new, 16), shuffled)


def test_fitted_embeddings_of_new_codes_add_up_to_those_of_the_old_codes() -> None:
    """The new codes are the old ones under other numbers."""
    rng = np.random.default_rng(0)
    old = np.stack([rng.integers(0, 32, 20_000) for _ in SIZES])
    shuffled = [rng.permutation(size) for size in SIZES]
    new = np.stack([order[codes] for order, codes in zip(shuffled, old, strict=True)])
    before = load_file(BUNDLED / "model.safetensors")
    after = fitted(BUNDLED, old, new)
    unlike = [name for name in before if not torch.equal(before[name], after[name])]
    assert unlike == ["audio_decoder.codebook_embeddings.weight"]
    wanted, made = _embedded(before, old[:, :500]), _embedded(after, new[:, :500])
    assert (made - wanted).square().sum() < 0.02 * (wanted - wanted.mean(0)).square().sum()


def test_match_restores_a_codec_whose_entries_were_renumbered(tmp_path: Path) -> None:
    file, config = codec_files(BUNDLED)
    codec, rng = load_codec(file, config), np.random.default_rng(0)
    for entries in codebooks_of(codec.quantizer)[1:]:
        order = torch.from_numpy(rng.permutation(len(entries.codebook.weight)))
        entries.codebook.weight.data = entries.codebook.weight.data[order]
    export(tmp_path / "codec", codec.requires_grad_(False))
    corpus = _corpus(rng)
    same = match(BUNDLED, tmp_path / "codec", corpus, tmp_path / "matched")
    assert same == [1.0] * len(SIZES)
    release = load_codec(*codec_files(tmp_path / "matched"))
    waves = torch.from_numpy(corpus.utterances[0].waveform())[None, None]
    assert torch.equal(release.encode(waves), load_codec(file, config).encode(waves))
    assert have_equal_weights(release, load_codec(*codec_files(tmp_path / "codec")))
    assert {each.name for each in (tmp_path / "matched").iterdir()} == {each.name for each in BUNDLED.iterdir()}


def _corpus(rng: np.random.Generator) -> Corpus:
    """Return six utterances of noise whose loudness and colour change."""
    utterances = []
    for i in range(6):
        noise = rng.standard_normal(SAMPLE_RATE).cumsum() % (3 + i)
        audio = (noise * np.linspace(500, 4000, len(noise))).astype(np.int16)
        utterances.append(Utterance("", [], [], 0, 0, 0, len(audio), False, False, audio))
    return Corpus(utterances, {})


def _embedded(tensors: dict[str, torch.Tensor], codes: np.ndarray) -> torch.Tensor:
    """Return the bundled model's embedding of each frame, `[T, D]`."""
    start = len(tensors["text_model.model.embeddings.weight"]) - SIZES[0]
    table = tensors["audio_decoder.codebook_embeddings.weight"].float()
    rows = len(table) // len(SIZES)
    made = tensors["text_model.model.embeddings.weight"][start + torch.from_numpy(codes[0])].float()
    for k in range(len(SIZES)):
        made += table[k * rows + torch.from_numpy(codes[k])]
    return made
