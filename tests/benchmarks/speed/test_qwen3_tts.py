"""The bytes of a Qwen3-TTS frame, and its table."""

from typing import Any

import torch

from benchmarks.speed.qwen3_tts import frame_bytes, speed_table
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.models.layers import TransformerBlock
from tests.paths import QWEN


def test_a_frame_reads_the_predictor_once_for_each_residual_codebook() -> None:
    models = [
        Qwen3TTSRelease(QWEN).load_model(dtype, torch.device("cpu"), None) for dtype in (torch.float32, torch.bfloat16)
    ]
    whole, half = (frame_bytes(model, 7) for model in models)
    assert whole == 2 * half
    model = models[0]
    config, passes = model.slow.config, model.fast.codebooks - 1
    assert frame_bytes(model, 8) - whole == 2 * config.n_layer * config.n_local_heads * config.head_dim * 4
    layer = TransformerBlock(model.fast.config)
    model.fast.layers.append(layer)
    assert frame_bytes(model, 7) - whole == passes * sum(weight.nbytes for weight in layer.parameters())


def test_the_table_tells_the_share_of_the_floor() -> None:
    found: dict[str, Any] = {
        "frames_per_second": {"package fp32": [1.0], "package bf16": [2.0], "Reprise": [4.0], "floor": [8.0]},
        "precision": "int8",
    }
    _, columns, rows = speed_table(found)
    assert columns[1:4] == ["package, fp32", "package, bf16", "Reprise, int8"]
    assert rows == [[1, "1.00", "2.00", "4.00", "× 4.00", "× 2.00", "8.00", "50%"]]
