"""Voice activity detection with the Silero network (https://github.com/snakers4/silero-vad, MIT), offline.

Only the weights of the `silero-vad` wheel are used. Importing the package would set the number of threads of the whole
process to one, and its model is stateful, so threads cannot share it. Here the network is a pure, thread-safe function
of the clip.
"""

import importlib.util
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

SAMPLE_RATE = 16_000
WINDOW = 512  # samples per probability (32 ms)
_CONTEXT = 64  # samples of the previous window in the network's input
_STFT_HOP = 128

_ENTER, _LEAVE = 0.5, 0.35  # the detector's own thresholds, with hysteresis against flicker within a word
_SHORTEST_SPEECH = 3  # windows; a click or a knock is shorter
_SHORTEST_PAUSE = 4  # windows; the closure of a plosive is shorter, a pause between words longer
_SETTLING, _GAP = 94, 5  # windows of the warm-up run (3 s), and windows of silence after them

Span = tuple[float, float]
"""Start and end in seconds."""


@cache
def silero_weights() -> dict[str, Tensor]:
    """Return the detector's weights for 16 kHz, loaded once from the wheel."""
    spec = importlib.util.find_spec("silero_vad")  # locates the wheel without running its code
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'silero_vad': install the packages in requirements.txt")
    return load_file(Path(spec.submodule_search_locations[0]) / "data" / "silero_vad_16k.safetensors")


@torch.inference_mode()
def speech_probabilities(samples: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return the probability of speech for every 32 ms of a clip.

    Args:
        samples: float32 [n], mono, 16 kHz, on the CPU, n ≥ 1.
        weights: from `silero_weights`.
    Returns: float32 [ceil(n / 512)], on the CPU.
    """
    hidden = _features(samples, weights)  # [windows, 128]
    state = hidden.new_zeros(1, 1, hidden.shape[1])
    lstm = [weights[f"lstm_cell.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    hidden, _, _ = torch.lstm(hidden.unsqueeze(0), (state, state), lstm, True, 1, 0.0, False, False, True)
    logits = F.linear(hidden.squeeze(0).relu(), weights["final_conv.weight"].squeeze(-1), weights["final_conv.bias"])
    return logits.sigmoid().squeeze(-1)


def _settled_probabilities(samples: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return the probabilities after a warm-up run over the end of the clip.

    The detector needs up to a second to adapt to an unusual voice, and would otherwise miss its first words.
    """
    end = samples[max(len(samples) % WINDOW, len(samples) - _SETTLING * WINDOW) :]
    before = torch.cat((end, samples.new_zeros(_GAP * WINDOW)))
    return speech_probabilities(torch.cat((before, samples)), weights)[len(before) // WINDOW :]


def _features(samples: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Compute the input of the recurrent layer for all windows at once: [n] → [windows, 128]."""
    samples = F.pad(samples, (_CONTEXT, -len(samples) % WINDOW))
    windows = samples.unfold(0, _CONTEXT + WINDOW, WINDOW).unsqueeze(1)
    spectrum = F.conv1d(F.pad(windows, (0, _CONTEXT), "reflect"), weights["stft_conv.weight"], stride=_STFT_HOP)
    real, imaginary = spectrum.chunk(2, dim=1)
    x = (real.square() + imaginary.square()).sqrt()  # [windows, 129, 4]
    for layer, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
        x = F.conv1d(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"], stride=stride, padding=1).relu()
    return torch.squeeze(x, -1)


def speech_spans(samples: Tensor) -> tuple[Span, ...]:
    """Return the segments of speech, in order, separated by pauses of at least 0.13 s. Empty without speech.

    Soft beginnings and ends of words may lie slightly outside.

    Args:
        samples: float32 [n], mono, 16 kHz, on the CPU, n ≥ 1.
    """
    probabilities = _settled_probabilities(samples, silero_weights())
    spans: list[list[int]] = []
    speaking = False
    for i, probability in enumerate(probabilities.tolist()):
        speaking = probability >= (_LEAVE if speaking else _ENTER)
        if not speaking:
            continue
        if spans and i - spans[-1][1] < _SHORTEST_PAUSE:
            spans[-1][1] = i + 1
        else:
            spans.append([i, i + 1])
    end = len(samples) / SAMPLE_RATE
    seconds = WINDOW / SAMPLE_RATE
    return tuple((a * seconds, min(b * seconds, end)) for a, b in spans if b - a >= _SHORTEST_SPEECH)
