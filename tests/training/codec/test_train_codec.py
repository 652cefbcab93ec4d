"""The codec's training learns, resumes exactly, and keeps codes in decoder-only training."""

import json
import shutil
import sys
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig, QuantizerConfig, WindowedTransformerConfig
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec, load_codec_decoder, load_codec_encoder
from engine.text.english.pronunciation import PHONES
from tests.paths import CLIP
from training.codec import train as train_codec
from training.codec.batches import LABELS_PER_FRAME, SILENCE, CropSampler, crop_batches, phones_at
from training.codec.check import held_out_quality
from training.codec.losses.audio import RecognitionLoss, SpectralLoss, pitch_of
from training.codec.quantizer import CodebookEMA, Lookup, QuantizerEMA, codebooks_of, quantize
from training.codec.run import CodecRecipe, CodecRun
from training.codec.train import checkpoint_of, export, held_out_for_checks, open_run, train_to_end
from training.recogniser.model import WEIGHTS, Recogniser
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.work import TrainingError

TINY = CodecConfig(
    sample_rate=SAMPLE_RATE,
    encoder_dim=4,
    encoder_rates=(2, 4, 8, 4),
    latent_dim=16,
    decoder_dim=16,
    decoder_rates=(4, 8, 4, 2),
    encoder_transformer_layers=(0, 0, 0, 0),
    encoder_transformer_window=16,
    quantizer=QuantizerConfig(
        input_dim=16,
        n_codebooks=2,
        codebook_size=8,
        codebook_dim=4,
        semantic_codebook_size=12,
        downsample_factor=(2, 2),
        transformer=WindowedTransformerConfig(
            n_layer=1,
            n_head=2,
            head_dim=8,
            dim=16,
            intermediate_size=32,
            window_size=4,
            rope_base=10_000.0,
            norm_eps=1e-6,
            final_norm=False,
        ),
    ),
)
QUICK = CodecRecipe(steps=4, batch=2, crop_frames=4, learning_rate=3e-3, warmup_steps=2, unquantized_steps=1)


def tone(low: float, high: float, seconds: float) -> np.ndarray:
    """Return a buzz in [-1, 1] that glides from one pitch to the other (Hz)."""
    f0 = np.geomspace(low, high, int(seconds * SAMPLE_RATE))
    phase = 2 * np.pi * np.cumsum(f0) / SAMPLE_RATE
    return np.asarray(0.2 * sum(np.sin(k * phase) / k for k in range(1, 12)))


def write_corpus(folder: Path) -> Corpus:
    """Write eight buzzing utterances of one second, two of them kept from training."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces, lines, offset = [], [], 0
    for i in range(8):
        audio = (tone(90 + 20 * i, 140 + 15 * i, 1.1) * 32767).clip(-32767, 32767).astype(np.int16)
        about = {
            "text": "Arms.", "tokens": ["aa", "r", "_", "m", "z", "."], "times": [0.1, 0.3, 0.5, 0.5, 0.8, 1.0],
            "speaker": 0, "shard": 0, "offset": offset, "samples": len(audio),
            "test_sentence": i >= 6, "held_out_speaker": False,
        }  # fmt: skip
        pieces.append(audio)
        lines.append(json.dumps(about))
        offset += len(audio)
    np.save(folder / "audio-000.npy", np.concatenate(pieces))
    (folder / "index-000.jsonl").write_text("\n".join(lines))
    (folder / "speakers.json").write_text('[{"id": 0}]')
    return Corpus.load(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Codec]:
    """The folder of a complete short run, and its codec."""
    work = tmp_path_factory.mktemp("trained")
    run = open_run(work, QUICK, corpus, config=TINY)
    train_to_end(work, run)
    return work, run.objective.codec


@pytest.fixture(scope="module")
def trained(finished: tuple[Path, Codec]) -> Path:
    """The folder of the codec of that run."""
    return finished[0] / "codec"


@pytest.fixture
def audio(corpus: Corpus) -> Tensor:
    return CropSampler(corpus.utterances, TINY, 8).batch(3, 5).audio


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def advance(run: CodecRun, steps: int) -> list[dict[str, float]]:
    return [run.advance() for _ in range(steps)]


def have_equal_weights(a: Codec, b: Codec) -> bool:
    pairs = zip(a.state_dict().items(), b.state_dict().items(), strict=True)
    return all(x == y and torch.equal(v, w) for (x, v), (y, w) in pairs)


def utterance(tokens: Iterable[str], times: list[float]) -> Utterance:
    return Utterance("", list(tokens), times, 0, 0, 0, 22050, False, False, np.zeros(22050, np.int16))


def test_phones_at_gives_the_phone_spoken_at_each_time() -> None:
    spoken = utterance(["aa", "_", "r", ",", "m", "."], [0.1, 0.3, 0.3, 0.4, 0.6, 0.9])
    classes = phones_at(spoken, np.array([0.0, 0.2, 0.35, 0.5, 0.7, 0.95]))
    names = ["" if label == SILENCE else PHONES[label - 1] for label in classes]
    assert names == ["", "aa", "r", "", "m", ""]


def test_crops_depend_only_on_their_seed(corpus: Corpus) -> None:
    sampler = CropSampler(corpus.utterances, TINY, 8)
    first, again, other = sampler.batch(4, 1, 2), sampler.batch(4, 1, 2), sampler.batch(4, 1, 3)
    assert first.audio.shape == (4, 1, 8 * TINY.frame_length)
    assert first.phones.shape == (4, 8 * LABELS_PER_FRAME)
    assert torch.equal(first.audio, again.audio)
    assert torch.equal(first.phones, again.phones)
    assert not torch.equal(first.audio, other.audio)


def test_processes_prepare_the_batches_of_the_same_steps(corpus: Corpus) -> None:
    sampler = CropSampler(corpus.utterances, TINY, 8)
    batches = crop_batches(sampler, 3, (0, 1), first=5, workers=2)
    for step in range(5, 9):
        batch, wanted = next(batches), sampler.batch(3, 0, 1, step)
        assert torch.equal(batch.audio, wanted.audio)
        assert torch.equal(batch.phones, wanted.phones)


def test_speech_shorter_than_a_crop_is_rejected(corpus: Corpus) -> None:
    with pytest.raises(TrainingError, match="No utterance for training holds the 102400 samples"):
        CropSampler(corpus.utterances, TINY, 100)


@pytest.mark.parametrize(("low", "high"), [(85, 85), (110, 160), (220, 180), (330, 370)])
def test_pitch_of_a_glide_is_tracked(low: float, high: float) -> None:
    audio = torch.from_numpy(tone(low, high, 32 * 1024 / SAMPLE_RATE)).float()[None, None, : 32 * 1024]
    log_f0, voiced = pitch_of(torch.nn.functional.pad(audio, (0, -audio.shape[2] % 1024)), SAMPLE_RATE, 1024)
    expected = np.log2(np.geomspace(low, high, 65)[1::2])
    assert voiced[0, 1:-1].all()
    assert np.abs(log_f0[0, 1:-1].numpy() - expected[1:-1]).max() < 0.04  # octaves: 3 %


def test_noise_and_silence_have_no_pitch() -> None:
    noise = torch.randn(1, 1, 16 * 1024, generator=generator()) * 0.2
    assert pitch_of(noise, SAMPLE_RATE, 1024)[1].float().mean() < 0.1
    assert not pitch_of(torch.zeros(1, 1, 16 * 1024), SAMPLE_RATE, 1024)[1].any()


def test_spectral_loss_grows_with_noise(audio: Tensor) -> None:
    loss = SpectralLoss(SAMPLE_RATE)
    noise = torch.randn(audio.shape, generator=generator())
    same_mel, same_low = loss(audio, audio)
    near_mel, near_low = loss(audio + 0.002 * noise, audio)
    far_mel, far_low = loss(audio + 0.05 * noise, audio)
    assert same_mel == same_low == 0
    assert 0 < near_mel < far_mel
    assert 0 < near_low < far_low


def test_spectral_loss_has_a_finite_gradient_at_silence(audio: Tensor) -> None:
    silence = torch.zeros_like(audio).requires_grad_(True)
    sum(SpectralLoss(SAMPLE_RATE)(silence, audio)).backward()
    assert silence.grad is not None
    assert silence.grad.isfinite().all()


def test_recognition_loss_grows_with_noise() -> None:
    """The loss is zero for an equal copy and grows with the noise of a copy."""
    samples, rate = soundfile.read(CLIP, dtype="float32")
    clip = torch.from_numpy(samples)[None, None, : 2 * rate]
    noise = torch.randn(clip.shape, generator=torch.Generator().manual_seed(0))
    loss = RecognitionLoss(rate, Recogniser.load(WEIGHTS))
    have_equal_weights, near, far = (loss(made, clip) for made in (clip, clip + 0.003 * noise, clip + 0.1 * noise))
    assert all(float(part) == pytest.approx(0, abs=1e-6) for part in have_equal_weights)
    assert all(0 < float(a) < float(b) for a, b in zip(near, far, strict=True))


def test_recognition_loss_has_a_gradient_but_trains_no_recogniser(audio: Tensor) -> None:
    silence = torch.zeros_like(audio).requires_grad_()
    recogniser = Recogniser.load(WEIGHTS)
    sum(RecognitionLoss(SAMPLE_RATE, recogniser)(silence, audio)).backward()
    assert silence.grad is not None
    assert silence.grad.isfinite().all()
    assert all(weight.grad is None for weight in recogniser.parameters())


def test_training_quantizes_like_inference(trained: Path, audio: Tensor) -> None:
    codec = load_codec(*codec_files(trained))
    z = codec.quantizer.pre_module(codec.quantizer.downsample(codec.encoder(audio)))
    found = quantize(codec.quantizer, z, generator())
    codes = codec.encode(audio)
    assert torch.equal(torch.stack([one.codes for one in found.lookups]), codes.transpose(0, 1).flatten(1))
    torch.testing.assert_close(found.latents, codec.quantizer.from_codes(codes))
    torch.testing.assert_close(found.semantic, codec.quantizer.semantic_quantizer.from_codes(codes[:, :1]))


def test_gradients_pass_the_lookup_but_not_into_codebooks(corpus: Corpus, tmp_path: Path) -> None:
    run = open_run(tmp_path, QUICK, corpus, config=TINY)
    codec = run.objective.codec
    latents = torch.randn(2, TINY.latent_dim, 5, generator=generator(), requires_grad=True)
    quantize(codec.quantizer, latents, generator()).latents.square().sum().backward()
    assert latents.grad is not None
    assert latents.grad.abs().sum() > 0
    for codebook in codebooks_of(codec.quantizer):
        assert codebook.in_proj.weight.grad is not None
        assert codebook.codebook.weight.grad is None


def test_quantizer_dropout_omits_the_last_codebooks(trained: Path, audio: Tensor) -> None:
    quantizer = load_codec(*codec_files(trained)).quantizer
    z = torch.randn(64, TINY.latent_dim, 3, generator=generator())
    codes = torch.cat((*quantizer.semantic_quantizer(z)[:1], torch.zeros(64, 2, 3, dtype=torch.long)), 1)
    codes[:, 1:] = quantizer.quantizer(quantizer.semantic_quantizer(z)[1])[0]
    parts = [book.from_codes(row) for book, row in zip(codebooks_of(quantizer), codes.unbind(1), strict=True)]
    sums = torch.stack(parts).cumsum(0)  # of one, two, three codebooks: [3, B, D, T]
    latents = quantize(quantizer, z, generator(), dropout=1.0).latents
    heard = (sums - latents).abs().amax((2, 3)) < 1e-4
    assert heard.any(0).all()
    assert heard.any(1).all(), "every number of codebooks occurs"


def test_codebooks_are_initialised_from_latents(corpus: Corpus, tmp_path: Path) -> None:
    run = open_run(tmp_path, QUICK, corpus, config=TINY)
    quantizer = run.objective.codec.quantizer
    centres = 3 * torch.randn(TINY.latent_dim, 12, generator=generator())
    z = centres.repeat(1, 20)[None] + 0.01 * torch.randn(1, TINY.latent_dim, 240, generator=generator(1))
    before = quantize(quantizer, z, generator()).commitment
    run.objective.averages.initialise_by_kmeans(z, generator())
    assert quantize(quantizer, z, generator()).commitment < 0.2 * before
    with pytest.raises(ValueError, match="5 latents cannot lay out a codebook of 12 entries"):
        run.objective.averages.initialise_by_kmeans(z[..., :5], generator())


def test_entries_follow_lookups_and_dead_ones_restart() -> None:
    quantizer = Codec(TINY).quantizer.requires_grad_(False)
    averages = QuantizerEMA(quantizer)
    expected = torch.tensor([[5.0, 0, 0, 0], [0, 5.0, 0, 0]]).repeat(8, 1)
    lookups = [Lookup(expected, torch.tensor([0, 1]).repeat(8)) for _ in range(3)]
    for _ in range(300):
        averages.update(lookups)
    for codebook in codebooks_of(quantizer):
        torch.testing.assert_close(codebook.codebook.weight[:2], expected[:2], rtol=0, atol=0.05)
    assert averages.used() == pytest.approx([2 / 12, 2 / 8, 2 / 8])
    averages.restart_dead_codes(lookups, generator())
    for codebook in codebooks_of(quantizer):
        assert (codebook.codebook.weight.max(1).values > 4.9).all()
    assert averages.used() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("rows", [2, 96])
def test_entries_stand_still_among_noisy_vectors(rows: int) -> None:
    """An entry that averages n vectors has 1 / sqrt(2 n) of their spread, whatever the number of vectors per step."""
    averages = QuantizerEMA(Codec(TINY).quantizer.requires_grad_(False)).averages[0]
    assert isinstance(averages, CodebookEMA)
    entries, random = torch.zeros(12, 4), generator()
    for _ in range(6000 // rows):
        wanted = torch.randn(rows, 4, generator=random)
        averages.update(entries, Lookup(wanted, torch.randint(12, (rows,), generator=random)))
    assert entries.square().mean().sqrt() < 0.13


def test_fresh_codec_latents_vary_with_speech(corpus: Corpus, tmp_path: Path, audio: Tensor) -> None:
    with torch.no_grad():
        scaled = open_run(tmp_path, QUICK, corpus, config=TINY).objective.encoded(audio)
        default = Codec(TINY)
        idle = default.quantizer.pre_module(default.quantizer.downsample(default.encoder(audio)))
    assert scaled.std(2).mean() > 10 * idle.std(2).mean()


def test_training_reduces_losses(corpus: Corpus, tmp_path: Path) -> None:
    recipe = CodecRecipe(steps=18, batch=2, crop_frames=4, learning_rate=7e-3, warmup_steps=3, ramp_steps=4)
    losses = advance(open_run(tmp_path, recipe, corpus, config=TINY), 18)
    for name, at_most in (("total", 0.7), ("mel", 0.7), ("harmonics", 0.7), ("phones", 0.98)):
        first, last = (np.mean([step[name] for step in part]) for part in (losses[:4], losses[-4:]))
        assert last < at_most * first, (name, first, last)


def test_resumed_run_equals_an_uninterrupted_one(corpus: Corpus, tmp_path: Path) -> None:
    """The run stops before and after a quarter of it, where quantization starts."""
    recipe = CodecRecipe(steps=4, batch=2, crop_frames=4, warmup_steps=4, ramp_steps=1)
    unbroken = open_run(tmp_path, recipe, corpus, config=TINY)
    expected = advance(unbroken, 4)
    (tmp_path / "codec").mkdir()
    before: list[dict[str, float]] = []
    for stopped_at in (1, 3):
        stopped = open_run(tmp_path, recipe, corpus, config=TINY)
        assert stopped.step == len(before)
        before += advance(stopped, stopped_at - stopped.step)
        assert (stopped.quantized_since is None) == (stopped_at == 1)
        stopped.save(checkpoint_of(tmp_path, stopped))
    resumed = open_run(tmp_path, recipe, corpus, config=TINY)
    assert resumed.step == 3
    assert before + advance(resumed, 1) == expected
    assert have_equal_weights(resumed.objective.codec, unbroken.objective.codec)


def test_exported_codec_equals_the_trained_one(finished: tuple[Path, Codec], audio: Tensor) -> None:
    work, codec = finished[0], deepcopy(finished[1])
    files = codec_files(work / "codec")
    assert files[1] == TINY
    for weight in codec.parameters():
        if weight.requires_grad:  # all but the codebooks
            weight.data = weight.data.half().float()
    assert have_equal_weights(load_codec(*files), codec)
    codes = load_codec_encoder(*files).encode(audio)
    assert torch.equal(codes, codec.encode(audio))
    torch.testing.assert_close(load_codec_decoder(*files).decode(codes), codec.decode(codes))
    left = {path.name for path in (work / "codec").iterdir()}
    assert left == {"codec.safetensors", "codec_config.json", "checkpoint-fresh.pt"}


def test_decoder_only_training_keeps_codes(corpus: Corpus, tmp_path: Path, trained: Path, audio: Tensor) -> None:
    run = open_run(tmp_path, QUICK, corpus, source=trained, decoder_only=True)
    train_to_end(tmp_path, run)
    before, after = load_codec(*codec_files(trained)), load_codec(*codec_files(tmp_path / "codec"))
    assert codec_fingerprint(after) == codec_fingerprint(before)
    codes = before.encode(audio)
    assert torch.equal(after.encode(audio), codes)
    assert not torch.equal(after.decode(codes), before.decode(codes))
    weights = before.state_dict()
    changed = {name for name, weight in after.state_dict().items() if not torch.equal(weight, weights[name])}
    kept = load_file(codec_files(tmp_path / "codec")[0])
    assert {name for name, weight in kept.items() if weight.dtype == torch.float16} >= changed
    assert {".".join(name.split(".")[:2]) for name in changed} == {
        "decoder.model", "quantizer.post_module", "quantizer.upsample",
    }  # fmt: skip


def test_continued_training_changes_all_weights(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    run = open_run(tmp_path, QUICK, corpus, source=trained)
    before = load_codec(*codec_files(trained))
    assert have_equal_weights(run.objective.codec, before)
    advance(run, 3)
    after = run.objective.codec.state_dict()
    assert [name for name, weight in before.state_dict().items() if torch.equal(weight, after[name])] == []
    assert codec_fingerprint(run.objective.codec) != codec_fingerprint(before)


def test_anchored_training_keeps_the_semantic_codebook(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    run = open_run(tmp_path, QUICK, corpus, source=trained, anchored=True)
    before = load_codec(*codec_files(trained))
    losses = [each["anchor"] for each in advance(run, 3)]
    after = run.objective.codec.state_dict()
    same = [name for name, weight in before.state_dict().items() if torch.equal(weight, after[name])]
    assert same == ["quantizer.semantic_quantizer.quantizers.0.codebook.weight"]
    # The first step begins where the anchor stands.
    assert losses[0] == pytest.approx(0, abs=1e-6)
    assert losses[-1] > 1e-6
    run.save(tmp_path / "checkpoint.pt")
    assert not any("anchor" in name for name in torch.load(tmp_path / "checkpoint.pt")["objective"])


def test_anchor_loss_leads_back_to_the_latents_of_the_source(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    run = open_run(tmp_path, QUICK, corpus, source=trained, anchored=True)
    objective, batch = run.objective, run.sampler.batch(2, 1)
    moved = [weight for weight in objective.codec.encoder.parameters() if weight.dim() > 1]
    with torch.no_grad():
        for weight in moved:
            weight.mul_(1 + 0.3 * torch.randn(weight.shape, generator=generator()))
    descent = torch.optim.SGD(moved, lr=1e-2)
    losses = []
    for _ in range(5):
        descent.zero_grad()
        loss = objective.reconstruct(batch, generator(), share=1.0, dropout=0.0).losses["anchor"]
        losses.append(loss.item())
        loss.backward()
        descent.step()
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_checkpoint_of_another_source_is_rejected(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    source, codec = tmp_path / "source", load_codec(*codec_files(trained))
    export(source, codec)
    (tmp_path / "codec").mkdir()
    run = open_run(tmp_path, QUICK, corpus, source=source, decoder_only=True)
    run.step = 3
    run.save(checkpoint_of(tmp_path, run))
    assert open_run(tmp_path, QUICK, corpus, source=source, decoder_only=True).step == 3
    with torch.no_grad():
        codebooks_of(codec.quantizer)[0].codebook.weight.mul_(2)
    export(source, codec)
    with pytest.raises(TrainingError, match="Remove it to start over"):
        open_run(tmp_path, QUICK, corpus, source=source, decoder_only=True)


def test_moved_folder_is_resumed(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(trained, work / "codec")
    run = open_run(work, QUICK, corpus, source=work / "codec", decoder_only=True)
    run.step = 3
    run.save(checkpoint_of(work, run))
    moved = work.rename(tmp_path / "moved")
    assert open_run(moved, QUICK, corpus, source=moved / "codec", decoder_only=True).step == 3


def test_checkpoint_with_other_options_is_rejected(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    (tmp_path / "codec").mkdir()
    run = open_run(tmp_path, QUICK, corpus, source=trained, anchored=True)
    run.save(checkpoint_of(tmp_path, run))
    with pytest.raises(TrainingError, match=r"other options \(--anchored\) than these \(none\)"):
        open_run(tmp_path, QUICK, corpus, source=trained)
    assert open_run(tmp_path, QUICK, corpus, source=trained, anchored=True).step == 0


def test_checkpoint_of_another_setting_is_rejected(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    shutil.copytree(trained, tmp_path / "codec")
    other = replace(TINY, decoder_dim=2 * TINY.decoder_dim)
    with pytest.raises(TrainingError, match=r"checkpoint-fresh.pt holds a codec of other sizes.*--setting"):
        open_run(tmp_path, QUICK, corpus, config=other)


def test_checkpoint_of_another_version_is_rejected(corpus: Corpus, tmp_path: Path, trained: Path) -> None:
    shutil.copytree(trained, tmp_path / "codec")
    checkpoint = tmp_path / "codec" / "checkpoint-fresh.pt"
    state = torch.load(checkpoint, weights_only=True)
    state["trainer"] = state.pop("objective")
    torch.save(state, checkpoint)
    with pytest.raises(TrainingError, match="another version of Reprise"):
        open_run(tmp_path, QUICK, corpus, config=TINY)


def test_cudnn_looks_for_fast_algorithms_while_a_codec_is_trained(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, settings = open_run(tmp_path, replace(QUICK, steps=1), corpus, config=TINY), []
    advance = run.advance

    def noting() -> dict[str, float]:
        settings.append((torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark))
        return advance()

    monkeypatch.setattr(run, "advance", noting)
    train_to_end(tmp_path, run)
    assert set(settings) == {(True, True)}
    assert not torch.backends.cudnn.benchmark


def test_finished_run_writes_nothing_again(
    corpus: Corpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "codec")
    (tmp_path / "codec" / "codec.safetensors").write_bytes(b"written by a later run")
    train_to_end(tmp_path, open_run(tmp_path, QUICK, corpus, config=TINY))
    assert "finished already, after 4 steps" in capsys.readouterr().out
    assert (tmp_path / "codec" / "codec.safetensors").read_bytes() == b"written by a later run"


def test_first_report_after_a_stop_is_of_the_steps_since(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(tmp_path, replace(QUICK, steps=100), corpus, config=TINY)
    run.step, run.elapsed = 97, 500.0

    def advance_by_two_seconds() -> dict[str, float]:
        run.step, run.elapsed = run.step + 1, run.elapsed + 2.0
        return {"total": 1.0}

    monkeypatch.setattr(run, "advance", advance_by_two_seconds)
    train_to_end(tmp_path, run)
    assert "2.00 s/step" in capsys.readouterr().out


def test_other_sample_rates_are_rejected(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="The speech has 22050 Hz, the codec 16000"):
        open_run(tmp_path, QUICK, corpus, config=replace(TINY, sample_rate=16000))


def test_quality_is_measured_on_held_out_speech(corpus: Corpus, trained: Path) -> None:
    kept = held_out_for_checks(corpus)
    assert [item.test_sentence for item in kept] == [True, True]
    quality = held_out_quality(load_codec(*codec_files(trained)), kept, SpectralLoss(SAMPLE_RATE))
    assert quality.mel > 0
    assert np.isnan(quality.pitch) or -1 <= quality.pitch <= 1


def test_command_trains_the_decoder_and_reports_quality(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "data")
    arguments = ["--work", str(tmp_path), "--from", str(trained), "--decoder-only", "--steps", "2", "--batch", "1"]
    monkeypatch.setattr(sys, "argv", ["train_codec", *arguments])
    train_codec.main()
    assert "2 utterances kept from training: mel" in capsys.readouterr().out
    assert codec_fingerprint(load_codec(*codec_files(tmp_path / "codec"))) == codec_fingerprint(
        load_codec(*codec_files(trained))
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decoder-only"], "--decoder-only needs --from FOLDER"),
        (["--anchored"], "--anchored needs --from FOLDER"),
        (["--anchored", "--decoder-only", "--from", "x"], "not --decoder-only, which keeps all codes"),
    ],
)
def test_unusable_options_are_rejected(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["train_codec", "--work", str(tmp_path), *options])
    with pytest.raises(SystemExit):
        train_codec.main()
    assert message in " ".join(capsys.readouterr().err.split())
