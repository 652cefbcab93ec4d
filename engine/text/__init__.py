"""Cleaning and segmentation of text; see `Segmentation.plan`."""

from engine.text.clean import clean_text, without_control_tokens
from engine.text.growing import GrowingText
from engine.text.pauses import MAX_PAUSE, with_paragraph_pauses, without_pauses
from engine.text.respelling import Respelling
from engine.text.segmentation import (
    Segment,
    Segmentation,
    check_speakers,
)
from engine.text.splitting import cut_text
from engine.text.timing import frame_budget, frame_minimum, speaking_time

__all__ = [
    "MAX_PAUSE",
    "GrowingText",
    "Respelling",
    "Segment",
    "Segmentation",
    "check_speakers",
    "clean_text",
    "cut_text",
    "frame_budget",
    "frame_minimum",
    "speaking_time",
    "with_paragraph_pauses",
    "without_control_tokens",
    "without_pauses",
]
