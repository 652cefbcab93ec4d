"""Reconstruction of a voice's clips from their codes, on the miniature release."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.codec.postfilter import Postfilter, PostfilterStream
from engine.engine import Engine
from engine.errors import EngineClosed, EngineFailed, UnusableReference
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.options import SpeakOptions
from engine.request import turns
from engine.serving.codec_worker import CodecWorker
from engine.voice import Voice
from tests.paths import BUNDLED, CLIP, MINIATURE, SPEECH

pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = Engine.load(MINIATURE, "cpu", graphs="off")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def voice(engine: Engine) -> Voice:
    clips = [(SPEECH / name, "Words.") for name in ("flite_slt.flac", "espeak_en_gb.flac")]
    return engine.encode_voice("Both", clips).voice


@pytest.fixture(scope="module")
def short_voice(voice: Voice) -> Voice:
    """The voice with a part of its codes."""
    references = (replace(each, codes=each.codes[:, :25]) for each in voice.references)
    return replace(voice, references=tuple(references))


def test_reconstruction_is_one_decode_of_all_codes(engine: Engine, short_voice: Voice) -> None:
    codes = np.concatenate([reference.codes for reference in short_voice.references], axis=1).astype(np.int64)
    decoder = load_codec_decoder(*codec_files(MINIATURE))
    whole = decoder.decode(torch.from_numpy(codes)[None])[0, 0].detach().numpy()
    heard = engine.reconstruct(short_voice)
    assert heard.dtype == np.float32
    np.testing.assert_allclose(heard, whole, atol=1e-5)
    np.testing.assert_allclose(engine.reconstruct(short_voice), heard, atol=1e-5)


def test_concurrent_reconstruction_does_not_change_speech(
    engine: Engine, short_voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = short_voice
    monkeypatch.setattr(turns, "ATTEMPTS", 1)
    alone = np.concatenate([chunk.samples for chunk in engine.speak("Hello.", voice, SpeakOptions(seed=4))])
    quiet = engine.reconstruct(voice)
    heard: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: heard.append(engine.reconstruct(voice))) for _ in range(3)]
    for thread in threads:
        thread.start()
    spoken = np.concatenate([chunk.samples for chunk in engine.speak("Hello.", voice, SpeakOptions(seed=4))])
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(spoken, alone, atol=1e-5)
    assert len(heard) == 3
    for each in heard:
        np.testing.assert_allclose(each, quiet, atol=1e-5)


def test_a_profile_may_ask_for_the_postfilter(bundled_engine: Engine, tmp_path: Path) -> None:
    """With the bundled release, since the miniature's audio is never voiced."""
    for file in BUNDLED.iterdir():
        (tmp_path / file.name).symlink_to(file)
    profile = tmp_path / "reprise.json"
    profile.unlink()
    profile.write_text("{}")
    with closing(Engine.load(tmp_path, "cpu", graphs="off")) as engine:
        voice = engine.encode_voice("Anna", [(CLIP, "The train was late, so we walked along the river.")]).voice
        plain, found = engine.reconstruct(voice), bundled_engine.reconstruct(voice)
    chunks = list(speech := bundled_engine.speak("Hello.", voice, SpeakOptions(seed=4)))
    expected = PostfilterStream(Postfilter(engine.info.sample_rate, engine.info.frame_length))
    filtered = torch.cat([expected.push(torch.from_numpy(plain)), expected.finish()]).numpy()
    assert np.linalg.norm(filtered - plain) > 0.2 * np.linalg.norm(plain)
    assert found.shape == plain.shape
    # Rounding of the codec in chunks can move a period.
    assert np.linalg.norm(found - filtered) < 0.2 * np.linalg.norm(filtered - plain)
    assert [len(chunk.samples) for chunk in chunks] == [chunk.frames * engine.info.frame_length for chunk in chunks]
    assert speech.result is not None
    assert chunks[-1].start + len(chunks[-1].samples) == speech.result.frames * engine.info.frame_length


def test_codes_of_another_codec_are_reencoded_from_the_clip(engine: Engine, voice: Voice) -> None:
    other = replace(voice, codec_fingerprint="another")
    np.testing.assert_allclose(engine.reconstruct(other), engine.reconstruct(voice), atol=1e-5)
    gone = replace(other, references=tuple(replace(reference, clip=b"") for reference in voice.references))
    with pytest.raises(UnusableReference):
        engine.reconstruct(gone)


class _FailingDecoder(torch.nn.Module):
    """A decoder whose steps fail."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = load_codec_decoder(*codec_files(MINIATURE))
        self.config = self.decoder.config

    def init_state(self, rows: int) -> object:
        return self.decoder.init_state(rows)

    def decode_step(self, _codes: object, _state: object) -> object:
        raise RuntimeError("out of memory\nand more")


def test_failed_or_closed_codec_worker_raises(voice: Voice) -> None:
    codes = np.concatenate([voice.references[0].codes.astype(np.int64)] * 2, axis=1)
    worker = CodecWorker(_FailingDecoder(), 1, torch.device("cpu"))  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match=r"out of memory$"):
        worker.decode(codes)
    worker.close()
    with pytest.raises(EngineClosed):
        worker.decode(codes)
