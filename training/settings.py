"""Settings of `training/pipeline`: for the bundled model, its successor, the sample voices, and tests (tiny)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from engine.codec.config import CodecConfig
from engine.release.hub import BUNDLED
from training.codec.run import ADVERSARIAL, ANCHORED, CONTINUED, CodecRecipe
from training.codec.sizes import bundled_codec_config
from training.dual_ar.guidance import GuidanceRecipe
from training.dual_ar.reward import RewardRecipe
from training.dual_ar.train import CONTINUED_RATE, DualARRecipe
from training.pitch.train import PitchRecipe
from training.speaker.train import SpeakerRecipe
from training.speech.synthesize import CorpusSpec

_Recipe = TypeVar("_Recipe", CodecRecipe, DualARRecipe)


@dataclass(frozen=True)
class Setting:
    """All parameters of a pipeline run that determine its result.

    source: a finished release to continue from; None trains from scratch. refined: with a source, trains its whole
    codec first, in the sizes of `codec`. Training changes most residual and some semantic codes. Without it, only the
    decoder and dual AR are trained, and codes stay valid. batch: crops per codec step; None chooses by device.
    gate: the least F0 correlation of the codec for training the dual AR; None accepts any. variants: number of variants
    of the encoded speech; the first is unchanged, the others are played faster or slower.
    """

    speech: CorpusSpec
    codec: CodecConfig
    batch: int | None
    fresh: CodecRecipe
    continued: CodecRecipe
    gate: float | None
    variants: int
    ar: DualARRecipe
    adversarial: CodecRecipe
    speaker: SpeakerRecipe
    pitch: PitchRecipe
    guidance: GuidanceRecipe
    reward: RewardRecipe
    source: Path | None = None
    refined: CodecRecipe | None = None


FULL = Setting(
    speech=CorpusSpec(hours=18.0),  # rendered in batches of 100 sentences, so up to a tenth more is made
    codec=bundled_codec_config(),
    batch=None,
    fresh=CodecRecipe(minutes=60),
    continued=replace(CONTINUED, minutes=110),
    gate=0.95,
    variants=1,
    ar=DualARRecipe(minutes=290),
    adversarial=replace(ADVERSARIAL, minutes=75),
    speaker=SpeakerRecipe(),
    pitch=PitchRecipe(),
    guidance=GuidanceRecipe(),
    reward=RewardRecipe(),
)


def _large_codec() -> CodecConfig:
    """Return a codec with capacity for high voices: encoder 2x, decoder 1.5x as wide, larger codebooks.

    18.9 M parameters, 38 MB in fp16; the decoder takes 2.2 times as long as the bundled one.
    """
    full = bundled_codec_config()
    transformer = replace(full.quantizer.transformer, n_head=6, head_dim=64, dim=384, intermediate_size=1024)
    quantizer = replace(
        full.quantizer, input_dim=384, codebook_size=1024, semantic_codebook_size=4096, transformer=transformer
    )
    return replace(full, encoder_dim=24, latent_dim=384, decoder_dim=384, quantizer=quantizer)


LARGE = replace(
    FULL,
    codec=_large_codec(),
    fresh=CodecRecipe(minutes=240),
    continued=replace(CONTINUED, minutes=480),
    gate=0.98,
    adversarial=replace(FULL.adversarial, minutes=480),
)


# Continues the bundled model on the sample voices, with other speakers mixed in so that it does not forget them.
SAMPLES = replace(
    FULL,
    source=BUNDLED,
    speech=CorpusSpec(hours=4.0, shares={"flite": 0.75, "festival": 0.10, "espeak": 0.15}, sample_voices=0.65),
    ar=DualARRecipe(minutes=75, learning_rate=CONTINUED_RATE),
    adversarial=replace(FULL.adversarial, minutes=80),
)


def _grown_codec() -> CodecConfig:
    """Return the bundled codec with an encoder twice as wide and three times as many transformer layers.

    10.5 M parameters; encoding takes 2.3 times as long, decoding hardly longer.
    """
    bundled = bundled_codec_config()
    transformer = replace(bundled.quantizer.transformer, n_layer=6)
    return replace(bundled, encoder_dim=24, quantizer=replace(bundled.quantizer, transformer=transformer))


# Continues the whole bundled model: first its codec, whose codes carry too little of the phones, on more speech.
REFINED = replace(
    SAMPLES,
    codec=_grown_codec(),
    speech=replace(SAMPLES.speech, hours=12.0),
    refined=replace(ANCHORED, minutes=300),
    ar=DualARRecipe(minutes=180, learning_rate=1.5 * CONTINUED_RATE, slow_rate=0.15, fast_share=0.5),
)


def _small_codec() -> CodecConfig:
    """Return a codec with the bundled one's rates and kinds of layers, several times narrower."""
    full = bundled_codec_config()
    quantizer = replace(
        full.quantizer,
        input_dim=48,
        n_codebooks=4,
        codebook_size=16,
        semantic_codebook_size=32,
        transformer=replace(full.quantizer.transformer, n_layer=1, n_head=2, head_dim=24, dim=48, intermediate_size=96),
    )
    return replace(full, encoder_dim=2, latent_dim=48, decoder_dim=16, quantizer=quantizer)


def _few(steps: int) -> CodecRecipe:
    return CodecRecipe(
        steps=steps, crop_frames=8, warmup_steps=2, unquantized_steps=2, ramp_steps=2, discriminators_lead=1
    )


TINY = Setting(
    speech=CorpusSpec(
        hours=1 / 225,
        shard_seconds=8,
        at_once=4,
        references=4,  # with the tests six utterances, the fewest from which a speaker's conversations are made
        tests=2,
        seen_tests=1,
        trained=1,
        held_out=1,
        shares={"flite": 0.75, "espeak": 0.25},  # without Festival, and without Kokoro, which takes seconds to load
    ),
    codec=_small_codec(),
    batch=2,
    fresh=_few(4),
    continued=_few(2),
    gate=None,
    variants=2,
    ar=DualARRecipe(minutes=5, steps=4, positions=512, warmup_steps=2),
    adversarial=_few(2),
    speaker=SpeakerRecipe(steps=2, batch=4),
    pitch=PitchRecipe(steps=2, batch=4, utterances=2),
    guidance=GuidanceRecipe(takes=1, passes=1, positions=512),
    # Hardly trained models end one take in five at once; such takes are not judged.
    reward=RewardRecipe(rounds=1, takes=4, passes=1, positions=512),
)

SETTINGS = {"full": FULL, "large": LARGE, "samples": SAMPLES, "refined": REFINED, "tiny": TINY}


def scaled(setting: Setting, factor: float) -> Setting:
    """Return the setting with `factor` times the minutes, and steps where they are limited, of codec and dual AR."""

    def part(recipe: _Recipe) -> _Recipe:
        return replace(recipe, minutes=factor * recipe.minutes, steps=factor * recipe.steps)

    return replace(
        setting,
        fresh=part(setting.fresh),
        continued=part(setting.continued),
        refined=None if setting.refined is None else part(setting.refined),
        adversarial=part(setting.adversarial),
        ar=part(setting.ar),
    )
