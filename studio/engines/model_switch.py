"""Replacement of the loaded model by another that the host allows."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import EngineClosed, InvalidOption, RepriseError
from studio.engines.current_engine import ModelChanging

if TYPE_CHECKING:
    from engine.messages import UserMessage
    from engine.release.hub import LoadingProgress
    from studio.engines.current_engine import CurrentEngine
    from studio.engines.idle_unloader import IdleUnloader
    from studio.engines.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

SWITCH_TIMEOUT = 120.0  # seconds that a switch waits for running speech to end


@dataclass(frozen=True)
class ModelCatalog:
    """The models that the host allows.

    notices: licence notice by the name that `load` takes. fetch: downloads a model if needed, while another one runs.
    load: creates its engine; called after the previous engine is closed.
    """

    notices: Mapping[str, UserMessage]
    fetch: Callable[[str, LoadingProgress], object]
    load: Callable[[str, LoadingProgress], SpeechEngine]


@dataclass(frozen=True)
class ModelLoading:
    """A model that is being loaded. done: 0 to 1. waits: whether it waits for running speech to end."""

    model: str
    done: float = 0.0
    waits: bool = False


class ModelSwitch:
    """Loads a model of the catalog in place of the current one. loading: the model that is being loaded."""

    def __init__(
        self, catalog: ModelCatalog | None, current: CurrentEngine, idle: IdleUnloader | None, timeout: float
    ) -> None:
        """catalog: None if the host allows no choice. timeout: seconds to wait for running speech to end."""
        self.catalog, self.timeout = catalog, timeout
        self.loading: ModelLoading | None = None
        self._current, self._idle = current, idle

    def run(self, model: str) -> bool:
        """Load a model, for all users; see `ModelManager.switch`. Return False if it is the loaded one already."""
        catalog, current = self.catalog, self._current
        if catalog is None or model not in catalog.notices:
            raise InvalidOption("engine.model_unknown", model=model)
        with current.changed:
            if current.closed:
                raise EngineClosed()
            if current.switching or (self._idle and self._idle.waking is not None):
                raise ModelChanging("engine.model_loading")
            if current.engine is not None and current.info.name == model and current.failure is None:
                return False
            self.loading, current.switching = ModelLoading(model), True
        try:
            catalog.fetch(model, self._report)
            before = self._close_engine(model)
            if not current.put(self._load(catalog, model, before)):
                raise EngineClosed()
            if self._idle:
                self._idle.model = model
        finally:
            with current.changed:
                self.loading, current.switching, current.refusing = None, False, False
                current.touch()
        return True

    def _report(self, _stage: str, done: float) -> None:
        if self.loading:
            self.loading = replace(self.loading, done=done)

    def _close_engine(self, model: str) -> str:
        """Close the engine once it is unused, refusing new users meanwhile. Returns its name."""
        current = self._current
        with current.changed:
            self.loading, current.refusing = ModelLoading(model, waits=bool(current.users)), True
            if not current.changed.wait_for(lambda: current.closed or not self._is_used(), self.timeout):
                raise ModelChanging("engine.takes_running")
            if current.closed:
                raise EngineClosed()
            self.loading = ModelLoading(model)
            engine = current.take()
        if engine is not None:
            engine.close()
        return current.info.name

    def _is_used(self) -> bool:
        return bool(self._current.users or (self._idle and self._idle.busy))

    def _load(self, catalog: ModelCatalog, model: str, before: str) -> SpeechEngine:
        """Load a model; if that fails, load the previous one again and raise the error."""
        try:
            return catalog.load(model, self._report)
        except Exception as error:
            if not self._current.closed:
                _clear_frames(error)
                self._load_again(catalog, model, before)
            raise

    def _load_again(self, catalog: ModelCatalog, model: str, before: str) -> None:
        log.warning("the model %s could not be loaded; %s is loaded again", model, before)
        try:
            engine = catalog.load(before, self._report)
        except RepriseError as error:
            log.error("the model %s cannot be loaded any more: %s", before, error)
            return
        self._current.put(engine)


def _clear_frames(error: BaseException) -> None:
    """Drop the variables that the tracebacks of an error hold: weights, if a model could not be loaded."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__
