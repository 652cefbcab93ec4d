"""The codec with its training heads, moving averages and losses.

Shapes: B batch, D latent width, T frames, n samples.
"""

from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.codec import Codec
from training.codec.batches import CropBatch
from training.codec.losses.alignment import aligned_with
from training.codec.losses.audio import CodecHeads, RecognitionLoss, SpectralLoss, pitch_of
from training.codec.losses.discriminators import Discriminators
from training.codec.losses.voice import VoiceLoss
from training.codec.quantizer import Lookup, QuantizerEMA, codebooks_of, decode_latents, quantize
from training.recogniser.model import Recogniser

_WEIGHTS = {
    "mel": 12.0,
    "harmonics": 6.0,
    "wave": 5.0,
    "commitment": 1.0,
    "pitch": 2.0,
    "perceptual": 10.0,
    "divergence": 3.0,
    "voice": 15.0,
    "voice_maps": 5.0,
    "f0": 1.0,
    "anchor": 100.0,
}


@dataclass(frozen=True)
class Reconstruction:
    """The codec's output for a batch, and its unweighted losses by name.

    audio: the output `[B, 1, n]`. heard: the same values without history; `audio_losses` are functions of it alone.
    target: what it is compared with by sample. losses: those that do not depend on the output. lookups: of the
    codebooks.
    """

    audio: Tensor
    heard: Tensor
    target: Tensor
    audio_losses: dict[str, Tensor]
    losses: dict[str, Tensor]
    lookups: list[Lookup]


def _latents(codec: Codec, audio: Tensor) -> Tensor:
    z: Tensor = codec.quantizer.pre_module(codec.quantizer.downsample(codec.encoder(audio)))
    return z


class CodecObjective(nn.Module):
    """Training losses of a codec. Codebooks take no gradients; `averages` updates them."""

    def __init__(
        self,
        codec: Codec,
        *,
        decoder_only: bool,
        adversarial: bool = False,
        anchored: bool = False,
        recogniser: Recogniser | None = None,
        voice: VoiceLoss | None = None,
    ) -> None:
        """Prepare `codec` for training.

        `decoder_only` freezes everything that determines the codes or their meaning. `anchored` freezes the semantic
        codebook and penalises changes of the vectors that are looked up in it, so that most semantic codes stay.
        `recogniser` adds `RecognitionLoss`. With `voice`, copies should have the originals' voice, and are compared
        with originals whose periods are moved to theirs.
        """
        super().__init__()
        self.codec, self.decoder_only = codec, decoder_only
        # A list, not a submodule: checkpoints do not contain the codec that the run began with.
        self._anchors = [deepcopy(codec).eval().requires_grad_(False)] if anchored else []
        self.heads = CodecHeads(codec.config.latent_dim)
        self.averages = QuantizerEMA(codec.quantizer, semantic_stays=anchored)
        self.spectral = SpectralLoss(codec.config.sample_rate)
        self.requires_grad_(not decoder_only)
        for trained in (codec.quantizer.post_module, codec.quantizer.upsample, codec.decoder):
            trained.requires_grad_(True)
        for codebook in codebooks_of(codec.quantizer):
            codebook.codebook.requires_grad_(False)
        self.discriminators = Discriminators() if adversarial else None
        self.recognition = None if recogniser is None else RecognitionLoss(codec.config.sample_rate, recogniser)
        self.voice = voice

    @property
    def options(self) -> str:
        """What is trained and how it is judged, as the options of `training.codec.train`."""
        given = {
            "--decoder-only": self.decoder_only,
            "--adversarial": self.discriminators is not None,
            "--voice": self.voice is not None,
            "--anchored": bool(self._anchors),
        }
        return " ".join(option for option, chosen in given.items() if chosen)

    @property
    def last_weight(self) -> nn.Parameter:
        """The weight of the decoder's last layer."""
        return [weight for weight in self.codec.decoder.parameters() if weight.dim() > 1][-1]

    def encoded(self, audio: Tensor) -> Tensor:
        """Encode audio `[B, 1, n]` to latents before quantization `[B, D, T]`, with gradients."""
        return _latents(self.codec, audio)

    def reconstruct(
        self, batch: CropBatch, generator: torch.Generator, *, share: float, dropout: float
    ) -> Reconstruction:
        """Encode, quantize and decode; see `quantize` for `share` and `dropout`."""
        config = self.codec.config
        z = self.encoded(batch.audio)
        found = quantize(self.codec.quantizer, z, generator, share=share, dropout=dropout)
        log_f0, voiced = pitch_of(batch.audio, config.sample_rate, config.frame_length)
        losses = {
            "commitment": found.commitment,
            "pitch": self.heads.pitch_loss(found.latents, log_f0, voiced),
            "phones": self.heads.phone_loss(found.semantic, batch.phones),
        }
        for anchor in self._anchors:
            losses["anchor"] = self._anchor_loss(anchor, z, batch.audio)
        return self._compared(decode_latents(self.codec, found.latents), batch.audio, generator, losses, found.lookups)

    def _anchor_loss(self, anchor: Codec, z: Tensor, audio: Tensor) -> Tensor:
        """Return the mean cosine distance of the vectors for the semantic lookup, of latents `z` and of `anchor`."""
        with torch.no_grad():
            wanted = codebooks_of(anchor.quantizer)[0].in_proj(_latents(anchor, audio))
        projected = codebooks_of(self.codec.quantizer)[0].in_proj(z)
        return 1 - F.cosine_similarity(projected, wanted, dim=1).mean()

    @staticmethod
    def weighted(losses: dict[str, Tensor], phone_weight: float) -> Tensor:
        """Return the weighted sum of the losses."""
        weights = {**_WEIGHTS, "phones": phone_weight}
        return torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()

    def reconstruct_from_codes(self, batch: CropBatch, generator: torch.Generator) -> Reconstruction:
        """Decode codes of the inference path. The losses depend on the decoder only."""
        quantizer = self.codec.quantizer
        with torch.no_grad():
            latents = quantizer.from_codes(quantizer.encode(self.codec.encoder(batch.audio)))
        return self._compared(decode_latents(self.codec, latents), batch.audio, generator, {}, [])

    def _compared(
        self,
        audio: Tensor,
        original: Tensor,
        generator: torch.Generator,
        losses: dict[str, Tensor],
        lookups: list[Lookup],
    ) -> Reconstruction:
        heard, target = audio.detach().requires_grad_(), original
        if self.voice is not None:
            target = aligned_with(heard.detach(), original, self.codec.config.sample_rate)
        mel, harmonics = self.spectral(heard, target)
        found = {"mel": mel, "harmonics": harmonics, "wave": F.l1_loss(heard, target)}
        if self.recognition is not None:
            found["perceptual"], found["divergence"] = self.recognition(heard, original)
        if self.voice is not None:
            found |= vars(self.voice(heard, original, generator))
        return Reconstruction(audio, heard, target, found, losses, lookups)
