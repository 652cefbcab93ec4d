"""The content of a card, for the library, and for reading and writing texts."""

from typing import Protocol


class CardContent(Protocol):
    """What a card says, and how. speaker: None for the narrator. pause: seconds of silence after it.

    ends_paragraph: its pause follows the script's. speed: 0.5 to 2, preserving pitch. chapter: the title of the chapter
    that begins with it, or None.
    """

    @property
    def text(self) -> str: ...
    @property
    def speaker(self) -> str | None: ...
    @property
    def pause(self) -> float: ...
    @property
    def ends_paragraph(self) -> bool: ...
    @property
    def speed(self) -> float: ...
    @property
    def chapter(self) -> str | None: ...
