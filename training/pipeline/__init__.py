"""Train the bundled model from scratch, in stages from the speech to a first sentence.

    python -m training.pipeline --work DIR [--setting full|large|samples|refined|tiny] [--until STAGE]
                                [--packed FOLDER … ] [--scale S]

Runs all stages in order, the first one by synthesis or with packed speech. `DIR/pipeline.json` records the finished
stages and their results. An interrupted stage resumes, so the same command starts a run, continues it, and does nothing
once it is complete. docs/training.md describes the stages.
"""

import argparse
import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.audio import wav_bytes
from engine.codec.fingerprint import codec_fingerprint
from engine.engine import Engine
from engine.families.s2.codec import codec_files, load_codec
from training.codec.check import held_out_quality
from training.codec.growth import grown
from training.codec.losses.audio import SpectralLoss
from training.codec.run import CodecRecipe
from training.codec.sizes import write_codec
from training.codec.train import BATCH, held_out_for_checks, open_run, train_to_end
from training.device import training_device
from training.dual_ar import guidance, reward
from training.dual_ar import train as train_ar
from training.dual_ar.encode import encode
from training.dual_ar.matching import match
from training.export import export
from training.packing import unpack
from training.pitch import train as train_pitch
from training.pitch.model import WEIGHTS_FILE as PITCH_FILE
from training.settings import SETTINGS, Setting, scaled
from training.speaker import train as train_speaker
from training.speaker.model import WEIGHTS_FILE as SPEAKER_FILE
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.speech.synthesize import synthesize
from training.whole_take import whole_take
from training.work import DEFAULT_WORK, TrainingError, cores, exit_with_message, positive, read_json, write_json

SEED = 1
_REFERENCE_SECONDS = 3.0
# Options of `open_run`, and of the command `training.codec.train`.
_REFINING = {"adversarial": True, "anchored": True}

Found = dict[str, Any]


class StageFailed(TrainingError):
    """Raised when a stage's result is not good enough for the next one, or the folder belongs to another setting."""


@dataclass(frozen=True)
class Stage:
    """One stage of the pipeline.

    name: its name on the command line and in `pipeline.json`. writes: a file that exists once the stage is finished,
    relative to the working folder.
    """

    name: str
    writes: str
    run: Callable[[Path, Setting], Found]


def _speech(work: Path, setting: Setting) -> Found:
    synthesize(work, setting.speech, SEED, workers=cores())
    return {"utterances": len(Corpus.load(work / "data").utterances)}


def _train_codec(work: Path, setting: Setting, recipe: CodecRecipe, **beginning: Any) -> Found:
    device = training_device()
    recipe = replace(recipe, batch=setting.batch or BATCH[device])
    run = open_run(work, recipe, Corpus.load(work / "data"), device=device, **beginning)
    train_to_end(work, run)
    return {"steps": run.step, "minutes": round(run.elapsed / 60, 1), "device": device}


def _source(work: Path, setting: Setting) -> Found:
    """Copy the codec of the release that the setting continues from, in the sizes of the setting if it is trained."""
    assert setting.source is not None
    (work / "codec").mkdir(exist_ok=True)
    codec = load_codec(*codec_files(setting.source))
    if setting.refined is None or codec.config == setting.codec:
        for name in ("codec_config.json", "codec.safetensors"):
            shutil.copy(setting.source / name, work / "codec")
    else:
        torch.manual_seed(SEED)
        write_codec(work / "codec", grown(codec, setting.codec).state_dict(), setting.codec)
    return {"fingerprint": codec_fingerprint(load_codec(*codec_files(work / "codec")))}


def _fresh(work: Path, setting: Setting) -> Found:
    return _train_codec(work, setting, setting.fresh, config=setting.codec)


def _continued(work: Path, setting: Setting) -> Found:
    return _train_codec(work, setting, setting.continued, source=work / "codec")


def _refined(work: Path, setting: Setting) -> Found:
    assert setting.refined is not None
    return _train_codec(work, setting, setting.refined, source=work / "codec", **_REFINING)


def _matched(work: Path, setting: Setting) -> Found:
    """Renumber the refined codec's entries and fit the source's dual AR to its codes."""
    assert setting.source is not None
    same = match(setting.source, work / "codec", Corpus.load(work / "data"), work / "matched", training_device())
    return {"same codes": [round(share, 3) for share in same]}


def _adversarial(work: Path, setting: Setting) -> Found:
    return _train_codec(
        work, setting, setting.adversarial, source=work / "codec", decoder_only=True, adversarial=True, voice=True
    )


def _gate(work: Path, setting: Setting) -> Found:
    """Measure the codec on held-out speech and check the result."""
    codec = load_codec(*codec_files(work / "codec"), training_device())
    kept = held_out_for_checks(Corpus.load(work / "data"))
    quality = held_out_quality(codec, kept, SpectralLoss(SAMPLE_RATE).to(training_device()))
    print(f"{len(kept)} utterances kept from training: {quality}", flush=True)
    check_gate(quality.pitch, setting, work)
    pitch = None if math.isnan(quality.pitch) else round(quality.pitch, 4)
    return {"utterances": len(kept), "mel": round(quality.mel, 4), "f0_correlation": pitch}


def check_gate(pitch: float, setting: Setting, work: Path) -> None:
    """Raise StageFailed unless the codec's F0 correlation `pitch`, which may be NaN, is high enough for the setting."""
    if setting.gate is not None and not pitch >= setting.gate:
        options = "".join(f" --{name}" for name in _REFINING) if setting.refined is not None else ""
        raise StageFailed(
            f"The codec's F0 correlation is {pitch:.2f} and should be {setting.gate:.2f}: the dual AR cannot learn a "
            "pitch that the codes do not carry. Continue training the codec (python -m training.codec.train "
            f"--work {work} --from {work / 'codec'}{options} --minutes M, with more than it has had), then start this "
            "again."
        )


def _codes(work: Path, setting: Setting) -> Found:
    encode(work, work / "codec", setting.variants)
    return {"files": len(list((work / "codes").glob("*.npz")))}


def _ar(work: Path, setting: Setting) -> Found:
    source = setting.source if setting.refined is None else work / "matched"
    train_ar.train(work, setting.ar, threads=0, source=source)
    state = torch.load(work / "ar" / "checkpoint.pt", map_location="cpu", weights_only=True, mmap=True)
    return {"steps": state["step"], "minutes": round(state["elapsed"] / 60, 1), "device": training_device()}


def _release(work: Path, setting: Setting) -> Found:
    export(work, work / "codec", work / "release")
    return {"bytes": sum(file.stat().st_size for file in (work / "release").iterdir())}


def _speaker(work: Path, setting: Setting) -> Found:
    return {"voices": train_speaker.run(work, setting.speaker)}


def _pitch(work: Path, setting: Setting) -> Found:
    return {"utterances": train_pitch.run(work, setting.pitch)}


def _guidance(work: Path, setting: Setting) -> Found:
    """Train the release on guided distributions of its own takes."""
    export(work, work / "codec", work / "release")  # anew, because a repeated stage has trained it before
    return {"takes": guidance.distil(work, work / "release", setting.guidance)}


def _reward(work: Path, setting: Setting) -> Found:
    """Train the release on the reward of its own takes."""
    results = reward.optimise(work, work / "guidance", setting.reward)
    shutil.copy(work / "reward" / "release" / "model.safetensors", work / "release")
    return {
        "errors": [round(each.error, 3) for each in results],
        "similarities": [round(each.similarity, 3) for each in results],
        "pitches": [round(each.pitch, 2) for each in results],
    }


def _first_words(work: Path, setting: Setting) -> Found:
    """Speak a held-out sentence in a held-out voice with the new release."""
    corpus = Corpus.load(work / "data")
    reference, sentence = held_out_pair(corpus)
    clip = wav_bytes(np.concatenate([each.waveform() for each in reference]), SAMPLE_RATE)
    engine = Engine.load(work / "release")
    try:
        voice = engine.encode_voice("held out", [(clip, " ".join(each.text for each in reference))]).voice
        speech = engine.speak(sentence.text, voice, replace(engine.info.default_options, seed=SEED))
        take = whole_take(speech)
    finally:
        engine.close()
    if speech.result is None or not len(take) or not np.isfinite(take).all():
        raise StageFailed(f"The release in {work / 'release'} loads, but does not speak.")
    (work / "first_words.wav").write_bytes(wav_bytes(take, engine.info.sample_rate))
    print(f"{work / 'first_words.wav'}: {sentence.text} ({speech.result.stop_reason})", flush=True)
    return {"text": sentence.text, "speaker": sentence.speaker, "stop_reason": speech.result.stop_reason}


def held_out_pair(corpus: Corpus) -> tuple[list[Utterance], Utterance]:
    """Return a reference of at least three seconds and a test sentence, both by the first held-out speaker."""
    held = [each for each in corpus.utterances if each.held_out_speaker]
    own = [each for each in held if each.speaker == held[0].speaker]
    reference: list[Utterance] = []
    for each in (each for each in own if not each.test_sentence):
        if sum(part.samples for part in reference) < _REFERENCE_SECONDS * SAMPLE_RATE:
            reference.append(each)
    return reference, next(each for each in own if each.test_sentence)


_CODEC = (
    Stage("codec", "codec/checkpoint-fresh.pt", _fresh),
    Stage("codec-continued", "codec/checkpoint-continued.pt", _continued),
    Stage("gate", "codec/codec.safetensors", _gate),
)
# These replace _CODEC when there is a source release.
_SOURCE = Stage("source", "codec/codec.safetensors", _source)
_REFINED = Stage("codec-refined", "codec/checkpoint-continued-adversarial.pt", _refined)
_MATCHED = Stage("matched", "matched/codec.safetensors", _matched)
STAGES = (
    Stage("speech", "data/index-000.jsonl", _speech),
    *_CODEC,
    Stage("codes", "codes/codes-000-0.npz", _codes),
    Stage("ar", "ar/checkpoint.pt", _ar),
    Stage("speaker", SPEAKER_FILE, _speaker),
    Stage("pitch", PITCH_FILE, _pitch),
    Stage("codec-adversarial", "codec/checkpoint-decoder-adversarial.pt", _adversarial),
    Stage("release", "release/model.safetensors", _release),
    Stage("guidance", "guidance/model.safetensors", _guidance),
    Stage("reward", "reward/release/model.safetensors", _reward),
    Stage("first-words", "first_words.wav", _first_words),
)


def stages(setting: Setting) -> list[Stage]:
    """Return the stages of a setting, in order."""
    if setting.source is None:
        return list(STAGES)
    codec = [_SOURCE] if setting.refined is None else [_SOURCE, _REFINED, _CODEC[-1], _MATCHED]
    return [STAGES[0], *codec, *STAGES[1 + len(_CODEC) :]]


@dataclass
class Record:
    """The content of `pipeline.json`: the setting as JSON, and the results of each finished stage."""

    setting: Found
    done: dict[str, Found]

    @classmethod
    def open(cls, file: Path, setting: Setting) -> "Record":
        """Load or create the record. Raises StageFailed when the folder belongs to another setting, and TrainingError
        for a damaged record."""
        own = json.loads(json.dumps(asdict(setting), default=str))
        if not file.exists():
            return cls(own, {})
        try:
            record = cls(**read_json(file))
        except TypeError:
            raise TrainingError(f"{file} is no record of this pipeline: use another folder.") from None
        if record.setting != own:
            differing = ", ".join(name for name in own if record.setting.get(name) != own[name])
            raise StageFailed(
                f"{file.parent} was begun with another setting ({differing}): give that one again, or another folder."
            )
        return record

    def save(self, file: Path) -> None:
        """Save the record atomically: a kill at any moment leaves the previous one intact."""
        write_json(file, asdict(self))


def _kept_codec(setting: Setting) -> str | None:
    """Return the fingerprint of the source's codec if the setting keeps its codes, else None."""
    if setting.source is None or setting.refined is not None:
        return None
    return codec_fingerprint(load_codec(*codec_files(setting.source)))


def run(work: Path, setting: Setting, until: str = STAGES[-1].name, packed: Sequence[Path] = ()) -> dict[str, Found]:
    """Run the unfinished stages up to and including `until`. Return the results of all finished stages.

    packed: folders of `training.packing` with the speech, which is then not synthesized. Their codes are used if they
    are of the codec that the setting keeps.

    Raises TrainingError when the setting has no stage `until`, a folder has no packed speech, or `work` has codes of
    another codec, and StageFailed when a stage's result is not good enough for the next one.
    """
    planned = stages(setting)
    names = [stage.name for stage in planned]
    if until not in names:
        raise TrainingError(f"This setting has no stage {until}. Its stages are {', '.join(names)}.")
    work.mkdir(parents=True, exist_ok=True)
    file = work / "pipeline.json"
    record = Record.open(file, setting)
    if packed:
        codec = _kept_codec(setting)
        shards = {number for folder in packed for number in unpack(folder, work, codec)}
        record.done[planned[0].name] = {"packed shards": sorted(shards)}
    if packed or not file.exists():
        record.save(file)
    for stage in planned:
        if stage.name in record.done and (work / stage.writes).exists():
            print(f"{stage.name}: done", flush=True)
        else:
            print(f"{stage.name}: begins", flush=True)
            began = time.monotonic()
            found = stage.run(work, setting)
            record.done[stage.name] = found | {"seconds": round(time.monotonic() - began, 1)}
            record.save(file)
        if stage.name == until:
            break
    return record.done


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.pipeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--setting", choices=SETTINGS, default="full")
    names = dict.fromkeys(stage.name for setting in SETTINGS.values() for stage in stages(setting))
    parser.add_argument("--until", choices=names, default=STAGES[-1].name)
    parser.add_argument("--packed", type=Path, nargs="+", default=(), metavar="FOLDER", help="packed speech to use")
    parser.add_argument("--scale", type=positive, default=1.0, help="of the minutes of codec and dual AR, as for a GPU")
    options = parser.parse_args()
    with exit_with_message():
        run(options.work, scaled(SETTINGS[options.setting], options.scale), options.until, options.packed)
