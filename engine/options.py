"""The options with which a model is loaded, and those of a request."""

import secrets
from dataclasses import dataclass, replace
from typing import Self, get_args

from engine.errors import InvalidOption
from engine.models.quantization import Precision
from engine.models.sampling import SamplingOptions, as_integer, option_value
from engine.serving.runner.step_runners import GraphMode
from engine.serving.scheduler import MAX_SLOTS

QUEUE = 64  # requests
MAX_SEED = 2**31 - 1


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


@dataclass(frozen=True)
class SpeakOptions(SamplingOptions):
    """Options of a request.

    seed: 0 to 2³¹ - 1; None picks one at random. Equal seeds give equal codes on one machine, with equal options of
    `Engine.load`. On a GPU, and in precisions other than fp32 and int8, only with its `deterministic`: otherwise
    rounding depends on the request's slot, on concurrent requests and on what is cached, so that another code may be
    drawn.
    language: of the text, a name such as `german` or a tag such as `de-AT`; "" leaves it to the model. Models without a
    language input ignore it.
    style: how to speak, as in a style tag: `whispering`. It is put before each sentence; models without style tags
    ignore it.
    word_times: whether chunks include word times. `Engine.speak` raises InvalidOption for a model without them
    (`Capabilities.word_times`).
    """

    seed: int | None = None
    language: str = ""
    style: str = ""
    word_times: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed is not None:
            seed = as_integer(self.seed)
            if seed is None or not 0 <= seed <= MAX_SEED:
                raise InvalidOption("option.seed", seed=str(self.seed)[:40], most=str(MAX_SEED))
            object.__setattr__(self, "seed", seed)

    def seeded(self) -> Self:
        """Return the options with a seed, a random one if they have none."""
        return self if self.seed is not None else replace(self, seed=secrets.randbelow(MAX_SEED + 1))
