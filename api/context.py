"""What the operations of the API work with."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from api.errors import ModelNotFound
from api.metrics import Metrics
from api.speech.clips import ClipSource
from studio.access import Access
from studio.speech_service import SpeechService

if TYPE_CHECKING:
    from studio.context import AppContext

# Names of OpenAI's models, which many clients send whatever the server: the loaded model responds to them.
COMMON_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


@dataclass(frozen=True)
class ApiContext:
    """app: the application's services. speech: speech and voices for callers. metrics: counts of what is done.

    clips: reads clips that requests name. started: seconds since 1970.
    """

    app: AppContext
    speech: SpeechService
    metrics: Metrics
    clips: ClipSource = field(default_factory=ClipSource)
    started: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def create(cls, app: AppContext, access: Access | None = None, clip_hosts: Iterable[str] = ()) -> ApiContext:
        """Make it over an application's services. access: of the callers; without it a new one. clip_hosts: that clips
        may be fetched from.
        """
        service = SpeechService(app, access or Access(app.storage.keys))
        return cls(app, service, Metrics(app.engine), ClipSource(clip_hosts))

    @property
    def model(self) -> str:
        """The name of the loaded model; of a folder, its last part."""
        name = self.app.engine.name
        return Path(name).name if Path(name).is_absolute() else name

    def check_model(self, name: str) -> None:
        """Raises ModelNotFound unless the loaded model responds to a name; also to dated ones, such as tts-1-1106."""
        if name != self.model and not name.startswith(COMMON_MODELS):
            raise ModelNotFound(
                f"The model “{name}” is not loaded here; ask for {', '.join([self.model, *COMMON_MODELS])}."
            )


def context_of(connection: HTTPConnection) -> ApiContext:
    """The context of the application that a request came to."""
    context: ApiContext = connection.app.state.context
    return context
