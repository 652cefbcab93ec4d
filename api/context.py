"""Shared services of the API's operations."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from api.errors import ModelNotFound
from api.heavy_jobs import HeavyJobs
from api.operators.metrics import Metrics
from api.speech.clips import ClipSource
from studio.access import Access
from studio.provenance.provenance import public_name
from studio.speech_service import SpeechService

if TYPE_CHECKING:
    from studio.context import AppContext

# Names of OpenAI's models, which many clients send to any server. The loaded model is served under them too.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


@dataclass(frozen=True)
class ApiContext:
    """Services of the API. app: the application's services. access: admits callers. speech: speech and voices for them.

    metrics: counts for Prometheus. clips: reads the clips named in requests. jobs: threads for heavy work. started:
    seconds since 1970.
    """

    app: AppContext
    access: Access
    speech: SpeechService
    metrics: Metrics
    clips: ClipSource = field(default_factory=ClipSource)
    jobs: HeavyJobs = field(default_factory=HeavyJobs)
    started: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def create(cls, app: AppContext, clip_hosts: Iterable[str] = ()) -> ApiContext:
        """Create it from an application's services. clip_hosts: hosts that clips may be fetched from."""
        access = Access(app.storage.keys)
        return cls(app, access, SpeechService(app, access), Metrics(app.engine), ClipSource(clip_hosts))

    @property
    def model(self) -> str:
        """The name of the loaded model; for a folder, its last path component."""
        return public_name(self.app.engine.info.name)

    def check_model(self, name: str) -> None:
        """Raise ModelNotFound unless a name is "" or one of the loaded model's, in any case, including dated ones such
        as tts-1-1106.
        """
        if name.lower() not in ("", self.model.lower()) and not name.lower().startswith(OPENAI_MODELS):
            raise ModelNotFound(
                f"The model “{name}” is not loaded here; ask for {', '.join([self.model, *OPENAI_MODELS])}."
            )


def context_of(connection: HTTPConnection) -> ApiContext:
    """Return the context of the application that received a request."""
    context: ApiContext = connection.app.state.context
    return context
