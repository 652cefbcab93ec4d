"""The bytes of a Qwen3-TTS frame, and its table."""

from typing import Any

import pytest
import torch

from benchmarks.speed.qwen3_tts import frame_bytes, main, speed_tables
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.models.transformer import TransformerBlock
from tests.paths import QWEN


def test_frame_bytes_count_the_predictor_per_residual_codebook() -> None:
    models = [
        Qwen3TTSRelease(QWEN).load_model(dtype, torch.device("cpu"), None) for dtype in (torch.float32, torch.bfloat16)
    ]
    whole, half = (frame_bytes(model, 7) for model in models)
    assert whole == 2 * half
    model = models[0]
    config, passes = model.slow.config, model.fast.num_codebooks - 1
    assert frame_bytes(model, 8) - whole == 2 * config.n_layer * config.n_local_heads * config.head_dim * 4
    layer = TransformerBlock(model.fast.config)
    model.fast.layers.append(layer)
    assert frame_bytes(model, 7) - whole == passes * sum(weight.nbytes for weight in layer.parameters())


def test_speed_tables_have_ratios_and_share_of_floor() -> None:
    rates = {"package, fp32": 1.0, "package, bf16": 2.0, "Reprise, bf16": 3.0, "Reprise, int8": 4.0}
    on_gpu = {"package, fp32": 1.0, "package, bf16": 2.0, "Reprise, bf16": 3.0}
    more = {"floor": 8.0, "spoken": 2.5}
    found: dict[str, Any] = {"frames_per_second": {"0.6B": [rates | more], "1.7B": [on_gpu | more]}}
    first, second = speed_tables(found)
    assert first.columns[1:5] == list(rates)[:4]
    assert first.rows == [[1, "1.00", "2.00", "3.00", "4.00", "× 4.00", "× 1.50", "× 2.00", "8.00", "50%", "2.50"]]
    assert "1.7B" in second.title
    assert len(second.columns) == len(second.rows[0])
    assert second.rows == [[1, "1.00", "2.00", "3.00", "× 3.00", "× 1.50", "8.00", "38%", "2.50"]]


def test_the_package_must_be_given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["qwen3_tts"])
    monkeypatch.setattr("benchmarks.speed.qwen3_tts.save", lambda *_: pytest.fail("nothing can be measured"))
    with pytest.raises(SystemExit):
        main()
    assert "--package PYTHON is needed" in capsys.readouterr().err
