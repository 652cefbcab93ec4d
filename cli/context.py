"""What a command works with: the voice library and the engine, opened with the options of the command line.

Torch, Gradio and SQLAlchemy are imported where they are used, so that every command starts fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.terminal import status_line
from engine.errors import InvalidInput, InvalidOption, VoiceNotFound
from studio.packages import has_package

if TYPE_CHECKING:
    from engine.sentences import Sentence
    from storage import Storage, VoiceLibrary
    from studio.context import AppContext
    from studio.engines.model_manager import ModelManager
    from studio.engines.speech_engine import SpeechEngine
    from studio.provenance.watermark import Watermark
    from studio.voices.available_voices import ModelVoice

LoadingProgress = Callable[[str, float], None]

SNAPSHOT_SECONDS = 60.0  # between two snapshots of a library that has changed
IDLE_LOOK_SECONDS = 15.0  # between two looks at whether the model is idle
SPACE_DATA = Path("/data")  # persistent storage or a mounted bucket of a Space


@dataclass(frozen=True)
class CommandContext:
    """The options that all commands share, and what is opened with them. None: the default of the engine.

    attaches: whether an engine that runs on the cluster is used as it is: only the page replaces it.
    """

    model: str
    device: str
    database: str | None = None
    sounds: str | None = None
    snapshots: Path | None = None
    precision: str | None = None
    graphs: str | None = None
    compiled: bool = False
    deterministic: bool = False
    slots: int | None = None
    cluster: str | None = None
    replicas: str = "1"
    replica_gpus: float | None = None
    idle_unload: float = 0.0  # minutes; 0: never
    watermarked: bool = False
    attaches: bool = False

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """The database, with the sample voices installed."""
        from storage import Storage
        from storage.voices.samples import install_samples

        with Storage.open(self._place(), sounds=self.sounds) as storage:
            install_samples(storage.voices)
            yield storage

    @contextmanager
    def library(self) -> Iterator[VoiceLibrary]:
        """The voices of the database."""
        with self.storage() as storage:
            yield storage.voices

    @contextmanager
    def engine(self) -> Iterator[SpeechEngine]:
        """The engine with the model of the command line."""
        with closing(self._load(self.model, _show_loading)) as engine:
            yield engine

    @contextmanager
    def models(self, notices: dict[str, Sentence]) -> Iterator[ModelManager]:
        """The engine that the page starts with, and the models that it can be told to load instead.

        notices: by model, as `model_notices` gives them.
        """
        from engine.release.hub import find_release
        from engine.serving.memory import release_memory
        from studio.engines.model_manager import IdleUnload, ModelCatalog, ModelManager
        from studio.engines.zero_gpu import is_zero_gpu
        from studio.periodic import every

        def load(model: str, progress: LoadingProgress) -> SpeechEngine:
            release_memory()  # of the previous model, before the next one measures what is free
            return self._load(model, progress)

        if notices and (self.cluster or is_zero_gpu()):
            raise InvalidOption("On a cluster and on ZeroGPU there is one model: leave out --models.")
        if self.idle_unload and (self.cluster or is_zero_gpu()):
            raise InvalidOption("On a cluster and on ZeroGPU the model stays loaded: leave out --idle-unload.")
        catalog = ModelCatalog(notices, find_release, load) if notices else None
        idle = IdleUnload(60 * self.idle_unload, self.model, load, release_memory) if self.idle_unload else None
        with ExitStack() as stack:
            manager = stack.enter_context(
                closing(ModelManager(self._load(self.model, _show_loading), catalog, idle=idle))
            )
            if idle:
                stack.enter_context(every(min(IDLE_LOOK_SECONDS, idle.seconds / 2), manager.unload_idle))
            yield manager

    @contextmanager
    def services(self, notices: dict[str, Sentence] | None = None) -> Iterator[AppContext]:
        """The services of a server, over the database and the model. notices: as for `models`."""
        from studio.context import AppContext

        watermark = self.watermark()
        with self._saved(), self.storage() as storage, self.models(notices or {}) as manager:
            yield AppContext.create(manager, storage, watermark)

    def watermark(self) -> Watermark | None:
        """The watermark for files, where it is asked for. Raises InvalidOption where it is not installed."""
        from studio.provenance.watermark import load_watermark

        return load_watermark() if self.watermarked else None

    def own_voices(self) -> list[ModelVoice] | None:
        """The voices of the model's own, without loading it; None for one that is not on this machine."""
        from studio.voices.available_voices import voices_of

        return voices_of(self.model)

    def check_words(self, transcript: str, missing: str) -> None:
        """Refuse a clip without its words before the model is loaded, where it is known to need them.

        missing: what to do about it. Raises InvalidInput.
        """
        from studio.voices.available_voices import abilities_of

        able = None if transcript.strip() else abilities_of(self.model)
        if able is not None and able.needs_words:
            raise InvalidInput(missing)

    def check_voice(self, library: VoiceLibrary, name: str, owner: str = "local") -> None:
        """Refuse a voice that neither the owner nor the model has, before the model is loaded.

        A model that is not on this machine may have any. Raises VoiceNotFound.
        """
        try:
            library.find(name, owner=owner)
        except VoiceNotFound:
            own = self.own_voices()
            if own is not None and not any(voice.is_called(name) for voice in own):
                raise

    def _place(self) -> str | Path:
        """File or URL of the library."""
        from platformdirs import user_data_path

        return self.database or user_data_path("reprise", ensure_exists=True) / "voices.db"

    @contextmanager
    def _saved(self) -> Iterator[None]:
        """The library's file restored from its snapshots, and saved there within the block and at its end.

        Raises InvalidOption for a library that is no file.
        """
        folder = self.snapshots or _space_folder(self.database)
        if folder is None:
            yield
            return
        from storage.sqlite.snapshots import LibrarySnapshots
        from studio.periodic import every

        place = self._place()
        if "://" in str(place):
            raise InvalidOption("Snapshots are of a library in a file; a server has its own backups.")
        snapshots = LibrarySnapshots(place, folder)
        snapshots.restore()
        try:
            with every(SNAPSHOT_SECONDS, snapshots.save):
                yield
        finally:
            snapshots.save()

    def _load(self, model: str, progress: LoadingProgress) -> SpeechEngine:
        options: dict[str, Any] = {
            "precision": self.precision,
            "graphs": self.graphs,
            "compiled": self.compiled,
            "deterministic": self.deterministic,
            "slots": self.slots,
        }
        given = {name: value for name, value in options.items() if value}
        if self.cluster:
            return self._connect(self.cluster, given)
        from engine.engine import Engine
        from studio.engines.zero_gpu import ZeroGpuEngine, is_zero_gpu

        if is_zero_gpu():
            return ZeroGpuEngine(Engine.load(model, self.device, progress=progress, start=False, **given))
        return Engine.load(model, self.device, progress=progress, **given)

    def _connect(self, address: str, given: dict[str, Any]) -> SpeechEngine:
        """The engine on a cluster. Raises InvalidOption, EngineFailed."""
        require("ray")
        from studio.cluster.deployment import connect
        from studio.cluster.messages import DeploymentSettings, EngineSettings

        engine = EngineSettings(self.model, self.device, **given)
        settings = DeploymentSettings(engine, parse_replicas(self.replicas), self.replica_gpus)
        return connect(address, settings, attach=self.attaches)


def parse_replicas(text: str) -> tuple[int, int]:
    """The least and the most replicas, from a text such as 2 or 1-8. Raises InvalidOption."""
    bounds = [int(number) if number.isdecimal() else 0 for number in text.split("-")]
    if len(bounds) > 2 or not 1 <= bounds[0] <= bounds[-1]:
        raise InvalidOption(f"“{text}” is no number of replicas: write it as 2, or as 1-8 for the least and the most.")
    return bounds[0], bounds[-1]


def context_of(context: typer.Context, **options: str | None) -> CommandContext:
    """The command's context. options: those given after the command, which take precedence over those before it."""
    shared: CommandContext = context.obj
    return replace(shared, **{name: value for name, value in options.items() if value})  # type: ignore[arg-type]


def require(package: str, least: int = 0) -> None:
    """Raises InvalidOption for a package that a command needs and that is not installed, or too old.

    least: the first major version that will do.
    """
    if not has_package(package, least):
        raise InvalidOption(
            f"This command needs the package “{package}”: install it with “pip install -r requirements-extra.txt”."
        )


def model_notices(model: str, models: list[str]) -> dict[str, Sentence]:
    """The models to choose from, each with its license notice; empty where there is no choice.

    Raises ReleaseNotFound.
    """
    from engine.release.hub import notice_of

    return {name: notice_of(name) for name in dict.fromkeys([model, *models])} if models else {}


def _space_folder(database: str | None) -> Path | None:
    """Where a Space keeps snapshots: in its /data, unless a library is named."""
    on_space = bool(os.environ.get("SPACE_ID")) and not database
    return SPACE_DATA / "reprise" if on_space and os.access(SPACE_DATA, os.W_OK) else None


def _show_loading(stage: str, done: float) -> None:
    status_line(f"{stage} … {done:.0%}" if done < 1 else "")
