"""The options with which a model is loaded."""

from dataclasses import dataclass
from typing import get_args

from engine.errors import InvalidOption
from engine.models.quantization import Precision
from engine.models.sampling import as_integer, option_value
from engine.serving.runner.step_runners import GraphMode
from engine.serving.scheduler import MAX_SLOTS

QUEUE = 64  # requests


@dataclass(frozen=True)
class LoadOptions:
    """Options of `Engine.load`, which describes them. Raises InvalidOption."""

    precision: Precision | None = None
    graphs: GraphMode = "frame"
    compiled: bool = False
    deterministic: bool = False
    slots: int | None = None
    queue: int = QUEUE

    def __post_init__(self) -> None:
        if self.precision is not None and self.precision not in get_args(Precision):
            raise InvalidOption("option.precision", value=str(self.precision)[:40], known=get_args(Precision))
        if self.graphs not in get_args(GraphMode):
            raise InvalidOption("option.graphs", value=str(self.graphs)[:40], known=get_args(GraphMode))
        slots = None if self.slots is None else as_integer(self.slots) or 0
        if slots is not None and not 1 <= slots <= MAX_SLOTS:
            raise InvalidOption("option.slots", slots=option_value(self.slots), most=MAX_SLOTS)
        queue = as_integer(self.queue)
        if queue is None or queue < 0:
            raise InvalidOption("option.queue", queue=option_value(self.queue))
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "queue", queue)


DEFAULT_OPTIONS = LoadOptions()
