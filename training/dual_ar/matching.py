"""Prepare a trained dual AR for a codec with other codes, so that it has less to relearn.

First the residual entries of the new codec are renumbered: each gets the index of the old entry that occurs most often
in the same frames (Hungarian method). Then the Slow AR's codebook embeddings are fitted by ridge regression: for the
new codes of a frame they should add up to the same vector as for the old ones.

Shapes: K codebooks, T frames, D width of the Slow AR.
"""

import shutil
from pathlib import Path

import numpy as np
import scipy  # as in `training.speech.resampling`
import torch
from safetensors.torch import load_file, save_file

from engine.families.s2.codec import codec_files, load_codec, load_codec_encoder
from engine.text.tokenizer import Tokenizer
from training.codec.quantizer import codebooks_of
from training.codec.train import export
from training.dual_ar.encode import encode_waves
from training.speech.corpus import SAMPLE_RATE, Corpus

COMPARED_SECONDS = 2400.0  # of training speech
_RIDGE = 30.0
_ROWS = 4096  # frames at a time in the regression
_SEMANTIC, _CODEBOOKS = "text_model.model.embeddings.weight", "audio_decoder.codebook_embeddings.weight"


def match(release: Path, codec: Path, corpus: Corpus, out: Path, device: str = "cpu") -> list[float]:
    """Renumber the residual entries of the codec in the folder `codec`, and write a release with it into `out`.

    Its dual AR is that of `release` with fitted codebook embeddings. Returns the fraction of the codes that stay those
    of `release`, for each of the K codebooks. Raises the errors of `load_codec`.
    """
    file, config = codec_files(codec)
    waves = _waves(corpus)
    old, new = _codes(release, waves, device), _codes(codec, waves, device)
    whole = load_codec(file, config).requires_grad_(False)
    for k, entries in enumerate(codebooks_of(whole.quantizer)[1:], start=1):
        order = order_like(old[k], new[k], config.codebook_sizes[k])
        entries.codebook.weight.data = entries.codebook.weight.data[torch.from_numpy(order)]
        new[k] = np.argsort(order)[new[k]]
    shutil.copytree(release, out, dirs_exist_ok=True)
    save_file(fitted(release, old, new), out / "model.safetensors")
    for folder in (out, codec):
        export(folder, whole)
    return [float(share) for share in (old == new).mean(1)]


def order_like(old: np.ndarray, new: np.ndarray, size: int) -> np.ndarray:
    """Return the new entry for each old one, `[size]`, such that they share the most frames; codes `[T]`."""
    together = np.zeros((size, size))
    np.add.at(together, (old, new), 1)
    # Relative to how often each occurs; else a frequent entry outweighs many rare ones.
    together /= np.sqrt(together.sum(1, keepdims=True) + 1) * np.sqrt(together.sum(0, keepdims=True) + 1)
    order: np.ndarray = scipy.optimize.linear_sum_assignment(together, maximize=True)[1]
    return order


def fitted(release: Path, old: np.ndarray, new: np.ndarray) -> dict[str, torch.Tensor]:
    """Return the dual AR's tensors of the release with codebook embeddings for the new codes; codes `[K, T]`.

    Embeddings of codes that do not occur stay.
    """
    tensors = load_file(release / "model.safetensors")
    table = tensors[_CODEBOOKS]
    semantic = tensors[_SEMANTIC][Tokenizer.load(release).semantic_start_id :].float().numpy()
    rows = len(table) // len(old)  # per codebook, the residual ones padded
    starts = rows * np.arange(len(old))[:, None]
    wanted = semantic[old[0]] - semantic[new[0]] + table[torch.from_numpy(starts + old)].float().sum(0).numpy()
    used, chosen = np.unique(starts + new, return_inverse=True)
    table[torch.from_numpy(used)] = torch.from_numpy(_ridge(chosen.T, wanted, len(used))).to(table.dtype)
    return tensors


def _ridge(chosen: np.ndarray, wanted: np.ndarray, size: int) -> np.ndarray:
    """Fit a table `[size, D]` whose rows `chosen` `[T, K]` add up to `wanted` `[T, D]`."""
    products, sums = np.zeros((size, size), np.float32), np.zeros((size, wanted.shape[1]), np.float32)
    for at in range(0, len(chosen), _ROWS):
        part = chosen[at : at + _ROWS]
        frames = np.zeros((len(part), size), np.float32)
        np.put_along_axis(frames, part, 1.0, axis=1)
        products += frames.T @ frames
        sums += frames.T @ wanted[at : at + _ROWS]
    table: np.ndarray = np.linalg.solve(products + _RIDGE * np.eye(size, dtype=np.float32), sums)
    return table


def _waves(corpus: Corpus) -> list[np.ndarray]:
    """Return training utterances spread over the corpus, float32 in [-1, 1]."""
    spoken = [each for each in corpus.utterances if each.for_training]
    every = max(1, round(sum(each.samples for each in spoken) / SAMPLE_RATE / COMPARED_SECONDS))
    return [each.waveform() for each in spoken[::every]]


@torch.inference_mode()
def _codes(folder: Path, waves: list[np.ndarray], device: str) -> np.ndarray:
    """Return the codes of all waveforms by the codec in `folder`, `[K, T]`."""
    encoder = load_codec_encoder(*codec_files(folder), device)
    return np.concatenate(encode_waves(encoder, waves), axis=1).astype(np.int64)
