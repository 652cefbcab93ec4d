"""The reward of a take: how clear its words are to the phone recogniser, and which codes would make them clearer.

Shapes: K codebooks, T frames of a take, N frames of any takes, D latent width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torchaudio.transforms import Resample

from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.text.english.pronunciation import PHONES
from training.codec.quantizer import codebooks_of, decode_latents
from training.recogniser.alignment import WEIGHTS
from training.recogniser.model import BLANK, RATE, LogMel, Recogniser


@dataclass(frozen=True)
class Clarity:
    """How clear a take is.

    error: negative log-likelihood of its phones (CTC), nats per phone. gradient: of their log-likelihood, in nats, with
    respect to the latents that the codes of each frame stand for `[T, D]`, on the CPU.
    """

    error: float
    gradient: Tensor


class ClarityReward:
    """Log-likelihood of a text's phones for the frozen recogniser, as a differentiable function of the codes."""

    def __init__(self, release: Path, device: str) -> None:
        """Load the decoder of a release. Raises the errors of `load_codec_decoder`."""
        self._device = device
        self._decoder = load_codec_decoder(*codec_files(release), device).requires_grad_(False)
        self._recogniser = Recogniser.load(WEIGHTS).requires_grad_(False).to(device)
        self._resample = Resample(self._decoder.config.sample_rate, RATE).to(device)
        self._mel = LogMel().to(device)
        # Of each codebook, what its entries add to the latents of a frame [D, size], without the bias.
        codebooks = codebooks_of(self._decoder.quantizer)
        self._entries = [each.out_proj.weight[:, :, 0] @ each.codebook.weight.T for each in codebooks]

    def judge(self, codes: NDArray[np.int16], phones: Sequence[str]) -> Clarity | None:
        """Judge a take `[K, T]` in which the phones should be heard; None when it is too short for them."""
        if not phones:
            return None
        taken = torch.from_numpy(codes.astype(np.int64))[None].to(self._device)
        latents = self._decoder.quantizer.from_codes(taken).requires_grad_(True)
        error = self._error(latents, phones)
        if not torch.isfinite(error):
            return None
        (gradient,) = torch.autograd.grad(-error, latents)
        return Clarity(error.item() / len(phones), gradient[0].T.cpu())

    def gains(self, gradient: Tensor, codes: Tensor, codebook: int) -> Tensor:
        """Estimate the gain in log-likelihood by each entry of a codebook in the place of a frame's code.

        gradient: `[N, D]`, of `Clarity`. codes: `[N, K]`. Returns: nats `[N, size]`, to first order, all other codes
        unchanged.
        """
        gains = gradient @ self._entries[codebook]
        return gains - gains.gather(1, codes[:, codebook, None])

    def _error(self, latents: Tensor, phones: Sequence[str]) -> Tensor:
        """Return the negative log-likelihood of the phones in nats, given the latents of all codes `[1, D, T]`."""
        audio = decode_latents(self._decoder, latents)[:, 0]
        log_probs = self._recogniser(self._mel(self._resample(audio))).log_softmax(-1)
        wanted = torch.tensor([[PHONES.index(phone) for phone in phones]], device=self._device)
        lengths = torch.tensor([log_probs.shape[1]]), torch.tensor([len(phones)])
        return F.ctc_loss(log_probs.transpose(0, 1), wanted, *lengths, blank=BLANK, reduction="sum")
