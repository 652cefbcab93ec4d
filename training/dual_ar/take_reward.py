"""The reward of a take: how clear its words are, how near its voice and pitch, and which codes would raise them.

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
from training.dual_ar.voice_reward import VoiceReward
from training.recogniser.model import BLANK, RATE, WEIGHTS, LogMel, Recogniser


@dataclass(frozen=True)
class Judgement:
    """The judgement of a take.

    error: negative log-likelihood of its phones (CTC), nats per phone. similarity: cosine of its voice and its
    speaker's. pitch: in semitones above the speaker's. gradient: of the reward, in nats, with respect to the latents
    that the codes of each frame stand for `[T, D]`, on the CPU.
    """

    error: float
    similarity: float
    pitch: float
    gradient: Tensor


class TakeReward:
    """Log-likelihood of a text's phones for the frozen recogniser, plus similarity of the voice for the frozen speaker
    encoder, less the distance in pitch for the frozen pitch estimator, as a differentiable function of the codes."""

    def __init__(self, release: Path, device: str, voice: VoiceReward) -> None:
        """Load the decoder of a release. Raises the errors of `load_codec_decoder`."""
        self._device, self._voice = device, voice.to(device)
        self._decoder = load_codec_decoder(*codec_files(release), device).requires_grad_(False)
        self._recogniser = Recogniser.load(WEIGHTS).requires_grad_(False).to(device)
        self._resample = Resample(self._decoder.config.sample_rate, RATE).to(device)
        self._mel = LogMel().to(device)
        # Of each codebook, what its entries add to the latents of a frame [D, size], without the bias.
        codebooks = codebooks_of(self._decoder.quantizer)
        self._entries = [each.out_proj.weight[:, :, 0] @ each.codebook.weight.T for each in codebooks]

    def judge(self, codes: NDArray[np.int16], phones: Sequence[str], speaker: int) -> Judgement | None:
        """Judge a take `[K, T]` in which a speaker should say the phones; None when it is too short for them.

        Raises KeyError when voices cannot be compared with the speaker.
        """
        if not phones:
            return None
        taken = torch.from_numpy(codes.astype(np.int64))[None].to(self._device)
        latents = self._decoder.quantizer.from_codes(taken).requires_grad_(True)
        audio = self._resample(decode_latents(self._decoder, latents)[:, 0])
        error = self._error(audio, phones)
        if not torch.isfinite(error):
            return None
        voice = self._voice(audio, speaker)
        (gradient,) = torch.autograd.grad(codes.shape[1] * voice.reward - error, latents)
        return Judgement(error.item() / len(phones), voice.similarity.item(), voice.pitch.item(), gradient[0].T.cpu())

    def gains(self, gradient: Tensor, codes: Tensor, codebook: int) -> Tensor:
        """Estimate the gain in reward by each entry of a codebook in the place of a frame's code.

        gradient: `[N, D]`, of `Judgement`. codes: `[N, K]`. Returns: nats `[N, size]`, to first order, all other codes
        unchanged.
        """
        gains = gradient @ self._entries[codebook]
        return gains - gains.gather(1, codes[:, codebook, None])

    def _error(self, audio: Tensor, phones: Sequence[str]) -> Tensor:
        """Return the negative log-likelihood of the phones in nats, given samples `[1, n]` at the recogniser's rate."""
        log_probs = self._recogniser(self._mel(audio)).log_softmax(-1)
        wanted = torch.tensor([[PHONES.index(phone) for phone in phones]], device=self._device)
        lengths = torch.tensor([log_probs.shape[1]]), torch.tensor([len(phones)])
        return F.ctc_loss(log_probs.transpose(0, 1), wanted, *lengths, blank=BLANK, reduction="sum")
