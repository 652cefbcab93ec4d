"""What an attack came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """How often something was tried, and each time that a promise was broken, in words that say how to see it again."""

    name: str
    tried: int = 0
    broken: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        self.tried += other.tried
        self.broken += other.broken
