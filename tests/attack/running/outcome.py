"""The outcome of a case, and the tally of an attack."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["held", "refused", "skipped", "raised", "slow", "large", "died"]
WRONG: dict[Kind, str] = {
    "raised": "another error than ours, or a broken promise",
    "slow": "over its time",
    "large": "over its memory",
    "died": "the process died",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case. detail: a traceback or a message. tries: number of tries in the case."""

    kind: Kind
    detail: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0
    tries: int = 1


@dataclass
class Tally:
    """The sum of an attack's outcomes."""

    name: str
    what: str
    tries: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0  # the slowest case
    megabytes: float = 0.0  # the largest growth
    run: str = ""  # the description of the run

    def add(self, outcome: Outcome) -> None:
        if outcome.kind == "skipped":
            if outcome.detail not in self.skipped:
                self.skipped.append(outcome.detail)
            return
        self.tries += outcome.tries
        self.seconds = max(self.seconds, outcome.seconds)
        self.megabytes = max(self.megabytes, outcome.megabytes)
        if outcome.kind in WRONG:
            self.wrong[outcome.kind] += 1

    def values(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self) | {"wrong": {kind: self.wrong[kind] for kind in WRONG}}


def tally_of(values: Mapping[str, Any]) -> Tally:
    """The tally from the result of `Tally.values`."""
    return Tally(**{**values, "wrong": Counter(values["wrong"])})
