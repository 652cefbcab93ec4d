"""The watermark with the real packages: found in marked audio, also as MP3, and not elsewhere."""

from importlib.util import find_spec
from typing import Any

import av
import numpy as np
import pytest
import torch

from engine.audio.decode import decode
from engine.audio.output.encode import encode_audio
from engine.errors import InvalidOption
from engine.voice import Voice
from studio.provenance import watermark as watermarks
from studio.provenance.provenance import FileCheck, check_file
from studio.provenance.watermark import Watermark, load_watermark
from tests.paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the packages


@pytest.fixture(scope="module")
def speech() -> tuple[Any, int]:
    """Two seconds of a sample voice and the sampling rate."""
    voice = Voice.from_bytes((ROOT / "assets/samples/clara.voice").read_bytes())
    recording = decode(voice.references[0].clip)
    return recording.samples[: 2 * recording.sample_rate].numpy(), recording.sample_rate


@pytest.mark.skipif(find_spec("perth") is None, reason="needs resemble-perth")
def test_watermark_survives_mp3(speech: tuple[Any, int], capsys: pytest.CaptureFixture[str]) -> None:
    samples, rate = speech
    mark = load_watermark()
    marked = mark.mark(samples, rate)
    assert capsys.readouterr().out == ""  # a protocol may use standard output
    assert marked.shape == samples.shape
    assert 0 < np.abs(marked - samples).max() < 0.2
    mp3 = _mp3(marked, rate, 128_000)
    checked = check_file(mp3)
    assert checked == FileCheck(None, "found")
    assert checked.ours
    assert check_file(encode_audio(marked, rate, "opus")).watermark == "found"
    assert check_file(_mp3(samples, rate, 128_000)).watermark == "missing"
    silence = np.zeros(rate, np.float32)
    assert not mark.found(torch.from_numpy(mark.mark(silence, rate)), rate)
    assert len(mark.mark(silence[:99], rate)) == 99
    assert not mark.found(torch.zeros(99), rate)


class ScalingNetwork(torch.nn.Module):
    """A replacement for Perth's network that scales each magnitude by 1.1."""

    def __init__(self) -> None:
        super().__init__()
        self.hp = type("Settings", (), {"sample_rate": 32_000})
        self.ap = self

    def signal_to_magphase(self, signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return signal[None], signal

    def magphase_to_signal(self, magnitudes: torch.Tensor, _phases: torch.Tensor) -> torch.Tensor:
        return magnitudes[0]

    def encoder(self, magnitudes: torch.Tensor) -> tuple[torch.Tensor, None]:
        return magnitudes * 1.1, None


@pytest.mark.parametrize("seconds", [0.3, 30.0, 30.4, 61.0])
def test_long_audio_is_marked_in_pieces_without_seams(seconds: float) -> None:
    samples = np.sin(np.arange(round(seconds * 32_000)) / 50).astype(np.float32) / 2
    np.testing.assert_allclose(Watermark(ScalingNetwork()).mark(samples, 32_000), samples * 1.1, atol=1e-6)


def test_missing_packages_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "find_spec", lambda _name: None)
    watermarks._load.cache_clear()
    with pytest.raises(InvalidOption, match=r"resemble-perth.*pip install"):
        load_watermark()


def _mp3(samples: Any, rate: int, bit_rate: int) -> bytes:
    import io

    file = io.BytesIO()
    with av.open(file, "w", "mp3") as container:
        stream = container.add_stream("libmp3lame", rate)
        stream.codec_context.layout, stream.codec_context.bit_rate = "mono", bit_rate
        frame = av.AudioFrame.from_ndarray((samples * 32_767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate, frame.pts = rate, 0
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return file.getvalue()
