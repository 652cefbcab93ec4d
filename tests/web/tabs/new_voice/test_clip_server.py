"""The recorder's clip server: waveforms, the doctor, repairs, reconstruction and deletion."""

import base64
import inspect
import io
import os
import sys
import threading
from fractions import Fraction
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import av
import numpy as np
import pytest
import soundfile

from engine.audio import transcription
from engine.audio.decode import decode
from engine.audio.doctor import Finding, Fix, findings
from engine.engine import Engine
from engine.errors import EngineBusy
from tests.engine.audio.test_transcription import segment
from tests.paths import CLIP, MINIATURE
from tests.support.fake_engine import FRAME, SAMPLE_RATE
from tests.support.looping import run
from tests.web.conftest import store_upload
from web.context import WebContext
from web.folders import LOCK
from web.tabs.new_voice import views
from web.tabs.new_voice.clip_server import PER_ADDRESS, ClipServer
from web.ui.i18n import Translations

STORY = CLIP.with_name("flite_slt_story.flac")
RATE = 16_000
ENGLISH = Translations.load().texts(None)
GERMAN: Any = SimpleNamespace(headers={"accept-language": "de"})


@pytest.fixture
def ask(context: WebContext) -> Any:
    functions = {function.__name__: function for function in ClipServer(context).functions()}
    return lambda name, value, request=None: run(functions[name], value, request)


@pytest.fixture
def store_clip(context: WebContext) -> Any:
    """A function that stores samples or a file among the uploads and returns the clip as the browser sends it."""

    def store(what: Any, name: str = "clip.wav", **more: Any) -> dict[str, Any]:
        file = io.BytesIO()
        if isinstance(what, np.ndarray):
            soundfile.write(file, what, RATE, subtype="FLOAT", format="WAV")
        else:
            file.write(what if isinstance(what, bytes) else what.read_bytes())
        path = store_upload(context.folder, name, file.getvalue())
        return {"path": str(path), "name": name, "start": 0, "end": None, **more}

    return store


def samples_of(answer: dict[str, Any]) -> tuple[np.ndarray, int]:
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(answer["wav"])), dtype="float32")
    return samples, rate


def story() -> np.ndarray:
    samples: np.ndarray = soundfile.read(STORY, dtype="float32")[0]
    return samples


def lights(answer: dict[str, Any]) -> list[str]:
    return [row["light"] for row in answer["rows"]]


# --- waveforms


def test_clip_peaks_decodes_files_and_reports_problems(ask: Any, store_clip: Any) -> None:
    answer = ask("clip_peaks", store_clip(CLIP, "clip.flac"))
    assert answer["seconds"] == 3.125
    assert max(answer["peaks"]) == pytest.approx(decode(CLIP).samples.abs().max().item(), abs=1e-3)
    assert "not audio that can be read" in ask("clip_peaks", store_clip(b"no sound at all", "song.mp3"))["problem"]
    assert "no sound" in ask("clip_peaks", store_clip(b"", "empty.wav"))["problem"]
    for path in ("/etc/passwd", None):
        assert "problem" in ask("clip_peaks", {"path": path})


FORMATS = {
    "wav": ("wav", "pcm_s16le"), "flac": ("flac", "flac"), "opus": ("ogg", "libopus"),
    "mp3": ("mp3", "libmp3lame"), "m4a": ("ipod", "aac"), "aac": ("adts", "aac"), "webm": ("webm", "libopus"),
}  # fmt: skip


def encode_clip(kind: str, container: str, codec: str, video: bool = False) -> bytes:
    """Return the fixture's clip in another format, with pictures if it is a video."""
    samples, rate = soundfile.read(CLIP, dtype="float32")
    times = np.arange(int(len(samples) * 48_000 / rate)) * rate / 48_000
    heard = np.interp(times, np.arange(len(samples)), samples).astype(np.float32)
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        picture = out.add_stream("libvpx" if container == "webm" else "mpeg4", rate=5) if video else None
        if picture:
            picture.width = picture.height = 64
            picture.pix_fmt = "yuv420p"
        sound: Any = out.add_stream(codec, rate=48_000, layout="mono")
        resampler = av.AudioResampler(
            sound.codec_context.format, "mono", 48_000, sound.codec_context.frame_size or 1024
        )
        if picture:
            for index in range(16):
                frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 90, np.uint8), format="rgb24")
                frame.pts, frame.time_base = index, Fraction(1, 5)
                out.mux(picture.encode(frame))
            out.mux(picture.encode(None))
        whole = av.AudioFrame.from_ndarray(heard[None], format="fltp", layout="mono")
        whole.sample_rate, whole.pts = 48_000, 0
        for part in [*resampler.resample(whole), *resampler.resample(None)]:
            out.mux(sound.encode(part))
        out.mux(sound.encode(None))
    return file.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gets_peaks_and_a_report(ask: Any, store_clip: Any, kind: str) -> None:
    clip = store_clip(encode_clip(kind, *FORMATS[kind]), f"clip.{kind}")
    assert ask("clip_peaks", clip)["seconds"] == pytest.approx(3.125, abs=0.2)
    answer = ask("examine_clip", clip)
    assert answer["speech_seconds"] == pytest.approx(2.8, abs=0.3)


def test_ogg_vorbis_gets_a_report(ask: Any, store_clip: Any) -> None:
    file = io.BytesIO()  # written by soundfile, the only library here that can
    soundfile.write(file, *soundfile.read(CLIP), format="OGG", subtype="VORBIS")
    assert ask("examine_clip", store_clip(file.getvalue(), "clip.ogg"))["speech_seconds"] == pytest.approx(2.8, abs=0.3)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("webm", "libopus")])
def test_sound_of_a_video_is_used(ask: Any, store_clip: Any, container: str, codec: str) -> None:
    clip = store_clip(encode_clip(container, container, codec, video=True), f"film.{container}")
    assert ask("examine_clip", clip)["speech_seconds"] == pytest.approx(2.8, abs=0.3)


def test_long_file_is_rejected_without_decoding(ask: Any, store_clip: Any, context: WebContext) -> None:
    clip = store_clip(b"", "long.flac")
    with soundfile.SoundFile(clip["path"], "w", 8_000, 1, format="FLAC") as file:
        for _ in range(20):
            file.write(np.zeros(8_000 * 60, np.int16))
    assert "longer than 90 seconds" in ask("clip_peaks", clip)["problem"]
    assert "longer than 90 seconds" in ask("examine_clip", clip)["problem"]


# --- the doctor


def test_good_clip_passes_all_checks(ask: Any, store_clip: Any) -> None:
    answer = ask("examine_clip", store_clip(STORY, "story.flac"))
    assert answer["light"] == "green"
    assert set(lights(answer)) == {"green"}
    assert answer["verdict"] == "This clip is good to use."
    assert "The clip lasts 15.2 s, which is enough." in [row["message"] for row in answer["rows"]]
    start, end = answer["best"]
    assert 0 <= start < 1
    assert 8 <= end - start <= 15


def test_selection_is_examined_with_times_of_the_file(ask: Any, store_clip: Any) -> None:
    silence = np.zeros(RATE * 4, np.float32)
    clip = store_clip(
        np.concatenate([silence, silence, story()[: RATE * 8], silence]), start=4.0, end=19.0, seconds=20.0
    )
    answer = ask("examine_clip", clip)
    (around,) = [row for row in answer["rows"] if row["fix"] == "trim"]
    assert around["light"] in ("amber", "red")
    assert around["label"] == "Trim the silence"
    assert around["part"][0] == pytest.approx(8, abs=0.3)
    assert around["part"][1] == pytest.approx(16, abs=0.3)
    assert answer["best"] == pytest.approx(around["part"], abs=0.3)


def test_silence_is_a_finding_not_an_error(ask: Any, store_clip: Any) -> None:
    answer = ask("examine_clip", store_clip(np.zeros(RATE * 6, np.float32)))
    assert (answer["light"], answer["best"], answer["speech_seconds"]) == ("red", None, 0)
    assert "The clip is silent" in answer["rows"][1]["message"]


def test_doctor_answers_in_the_readers_language(ask: Any, store_clip: Any) -> None:
    answer = ask("examine_clip", store_clip(story() * 0.002), GERMAN)
    (quiet,) = [row for row in answer["rows"] if row["fix"] == "level"]
    assert "ist leise" in quiet["message"]
    assert (quiet["label"], quiet["word"]) == ("Lautstärke angleichen", "Verbesserbar")


def test_each_light_has_a_word_and_a_verdict() -> None:
    for light in ("green", "amber", "red"):
        assert ENGLISH(f"doctor.{light}")
        assert ENGLISH(f"doctor.verdict_{light}")


def test_row_is_built_from_a_finding_alone() -> None:
    finding: Finding = findings.of_pauses(2.0)
    row = views._row(finding, ENGLISH, {})
    assert row["message"].startswith("There is a silence of 2 s")
    assert (row["fix"], row["label"], row["part"]) == ("pauses", "Shorten the pauses", None)


# --- repairs


@pytest.mark.parametrize(
    ("fix", "damage"),
    [
        (Fix.LEVEL, lambda samples: samples * 0.002),
        (Fix.RUMBLE, lambda samples: samples + 0.4 * np.sin(2 * np.pi * 40 * np.arange(len(samples)) / RATE)),
        (Fix.PAUSES, lambda samples: np.concatenate([samples[: RATE * 5], np.zeros(RATE * 4), samples[RATE * 5 :]])),
    ],
)
def test_repaired_finding_disappears(ask: Any, store_clip: Any, fix: Fix, damage: Any) -> None:
    clip = store_clip(damage(story()[: RATE * 8]).astype(np.float32))
    before = ask("examine_clip", clip)
    assert fix.value in [row["fix"] for row in before["rows"]]
    samples, rate = samples_of(ask("repair_clip", {**clip, "fix": fix.value}))
    assert rate == RATE
    after = ask("examine_clip", store_clip(samples, "repaired.wav"))
    assert fix.value not in [row["fix"] for row in after["rows"]]


def test_repair_applies_to_the_selection_only(ask: Any, store_clip: Any) -> None:
    clip = store_clip(story() * 0.002, start=2.0, end=7.0, seconds=15.2)
    samples, _ = samples_of(ask("repair_clip", {**clip, "fix": "level"}))
    assert len(samples) == RATE * 5
    assert np.abs(samples).max() > 0.1


@pytest.mark.parametrize("fix", [None, "reverb", ["level"], {}])
def test_unknown_repairs_are_rejected(ask: Any, store_clip: Any, fix: Any) -> None:
    assert "Reload it" in ask("repair_clip", {**store_clip(story()), "fix": fix})["problem"]


# --- words


def test_word_count_is_checked_against_the_speech_length(ask: Any) -> None:
    said = "On Thursday my cousin Joyce brought fresh oranges, a jar of plum jam and a huge yellow kite to the beach."
    lights = [
        ask("check_words", {"words": words, "speech_seconds": 6.5})["row"]["light"] for words in (said, "On", said * 4)
    ]
    assert lights == ["green", "red", "red"]
    for value in (
        None,
        {},
        {"words": said},
        {"words": said, "speech_seconds": float("nan")},
        {"speech_seconds": -1},
        {"speech_seconds": "1"},
    ):
        assert "problem" in ask("check_words", value)


def test_clip_is_transcribed_if_faster_whisper_is_installed(
    ask: Any, store_clip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(transcription, "can_transcribe", lambda: False)
        assert "install faster-whisper" in ask("write_words", store_clip(CLIP))["problem"]
    fake = ModuleType("faster_whisper")
    fake.__spec__ = ModuleSpec("faster_whisper", None)

    def said(heard: np.ndarray, **_: Any) -> tuple[Any, Any]:
        return [segment(text=f" {len(heard)} samples.", start=0.0, end=1.0)], SimpleNamespace(language="en")

    model = SimpleNamespace(transcribe=said, supported_languages=["en"])
    fake.WhisperModel = lambda *_given, **_options: model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", fake)
    transcription._model.cache_clear()
    clip = store_clip(story(), start=1.0, end=3.0, seconds=15.2)
    assert ask("write_words", clip) == {"words": f"{2 * RATE} samples."}
    transcription._model.cache_clear()


# --- reconstruction


def test_codec_preview_reconstructs_the_selection(ask: Any, store_clip: Any) -> None:
    samples, rate = samples_of(ask("preview_codec", store_clip(story(), start=2.0, end=7.0, seconds=15.2)))
    assert rate == SAMPLE_RATE
    assert len(samples) / rate == pytest.approx(5, abs=0.6)
    assert len(samples) % FRAME == 0
    assert "silent" in ask("preview_codec", store_clip(np.zeros(RATE * 3, np.float32)))["problem"]


def test_codec_preview_works_with_a_real_engine(store_clip: Any, context: WebContext) -> None:
    engine = Engine.load(MINIATURE, "cpu", graphs="off")
    try:
        real: Any = SimpleNamespace(engine=engine, folder=context.folder, texts=context.texts)
        ask = {function.__name__: function for function in ClipServer(real).functions()}["preview_codec"]
        samples, rate = samples_of(run(ask, store_clip(CLIP, "clip.flac"), None))
    finally:
        engine.close()
    assert rate == engine.info.sample_rate
    assert len(samples) / rate == pytest.approx(3.1, abs=0.4)


def test_busy_engine_is_reported_in_the_readers_language(
    ask: Any, store_clip: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_voice: Any) -> Any:
        raise EngineBusy("engine.busy", limit=4)

    monkeypatch.setattr(engine, "reconstruct", busy)
    assert ask("preview_codec", store_clip(story()), GERMAN)["problem"] == Translations.load().texts(GERMAN)(
        "engine.busy", limit=4
    )


def test_clip_calls_have_their_own_bounded_queue(
    context: WebContext, store_clip: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = {function.__name__: function for function in ClipServer(context).functions()}
    assert all(map(inspect.iscoroutinefunction, functions.values())), (
        "Gradio would run plain functions on its own threads"
    )
    go, clip, answers = threading.Event(), store_clip(story()), []
    monkeypatch.setattr(engine, "reconstruct", lambda _: go.wait(30) and np.zeros(FRAME, np.float32))

    async def main() -> None:
        async def ask(name: str) -> None:
            answers.append(await functions[name](clip, GERMAN))

        async with anyio.create_task_group() as group:
            for _ in range(PER_ADDRESS):
                group.start_soon(ask, "preview_codec")
            await anyio.wait_all_tasks_blocked()
            await ask("preview_codec")
            await ask("check_words")
            go.set()

    run(main)
    assert answers[0]["problem"] == Translations.load().texts(GERMAN)("budget.files")
    assert "budget" not in str(answers[1:])
    assert [set(answer) for answer in answers[2:]] == [{"wav"}] * PER_ADDRESS


# --- deletion


def test_forget_deletes_only_the_clip(ask: Any, store_clip: Any, context: WebContext, tmp_path: Path) -> None:
    clip = store_clip(story())
    secret = tmp_path / "secret.wav"
    lock, other = context.folder / LOCK, context.folder / "other" / "file"
    other.parent.mkdir()
    for file in (secret, lock, other):
        file.write_bytes(b"not yours")
        assert "problem" in ask("forget_clip", {"path": str(file)})
    assert "problem" in ask("forget_clip", {"path": str(context.folder)})
    assert ask("forget_clip", {"path": clip["path"]}) == {}
    assert secret.exists()
    assert {lock, other.parent} == set(context.folder.iterdir())
    assert other.exists()
    assert "no longer on the server" in ask("forget_clip", {"path": clip["path"]})["problem"]


def test_used_clips_and_clips_of_open_pages_are_kept_longer(ask: Any, store_clip: Any) -> None:
    path = Path(store_clip(story())["path"])
    for name, value in (("clip_peaks", {"path": str(path)}), ("keep_clips", {"paths": ["/etc/hostname", str(path)]})):
        os.utime(path, (0, 0))
        assert "problem" not in ask(name, value)
        assert path.stat().st_mtime > 0
    assert "problem" in ask("keep_clips", {"paths": "x"})
    assert ask("keep_clips", {"paths": ["/etc/hostname", str(path)]}) == {"gone": ["/etc/hostname"]}
