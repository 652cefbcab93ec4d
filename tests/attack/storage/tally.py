"""The result of an attack."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Number of tries, and broken promises with instructions to reproduce them."""

    name: str
    tried: int = 0
    broken: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another tally."""
        self.tried += other.tried
        self.broken += other.broken
