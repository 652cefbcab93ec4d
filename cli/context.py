"""Context of the commands: the voice library and the engine, opened with the options of the command line.

Torch, Gradio and SQLAlchemy are imported where they are used, so that every command starts fast.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.terminal import exit_on_next_ctrl_c, exit_on_signal, say, status_line
from engine.errors import InvalidInput, InvalidOption
from storage.errors import VoiceNotFound
from studio.packages import has_package

if TYPE_CHECKING:
    from engine.messages import UserMessage
    from engine.release.hub import LoadingProgress
    from storage import Storage, VoiceLibrary
    from storage.sqlite.snapshots import LibrarySnapshots
    from studio.context import AppContext
    from studio.engines.model_manager import ModelManager
    from studio.engines.speech_engine import SpeechEngine
    from studio.provenance.watermark import Watermark
    from studio.voices.available_voices import BuiltInSpeaker

SNAPSHOT_SECONDS = 60.0  # between two snapshots of a library that has changed
IDLE_LOOK_SECONDS = 15.0  # between two checks whether the model is idle
SPACE_DATA = Path("/data")  # persistent storage or a mounted bucket of a Space


@dataclass(frozen=True)
class CommandContext:
    """The options shared by all commands, which open the library and the engine. None: the engine's default.

    reuse_deployment: whether to use an engine already running on the cluster as it is. Only the page replaces it.
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
    reuse_deployment: bool = False

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """Open the database, with the sample voices installed. A missing file is restored from its snapshot first.

        A new file is announced, since its name may be a mistake.
        """
        from storage import Storage
        from storage.database import library_file
        from storage.voices.sample_voices import install_samples

        if snapshots := self._snapshots():
            snapshots.restore()
        location = self._library_location()
        file = library_file(location)
        is_new = file is not None and not os.access(file, os.F_OK)
        with Storage.open(location, audio_store=self.sounds) as storage:
            if is_new:
                say(f"New library: {file}")
            install_samples(storage.voices)
            yield storage

    @contextmanager
    def library(self) -> Iterator[VoiceLibrary]:
        """Open the voices of the database."""
        with self.storage() as storage:
            yield storage.voices

    @contextmanager
    def engine(self) -> Iterator[SpeechEngine]:
        """Load the engine with the model of the command line."""
        with closing(self._load(self.model, _show_loading)) as engine:
            yield engine

    @contextmanager
    def models(self, notices: dict[str, UserMessage]) -> Iterator[ModelManager]:
        """Load the engine that the page starts with; the manager can replace its model.

        notices: by model, as `model_notices` returns them.
        """
        from engine.release.hub import find_release
        from engine.serving.device import release_memory
        from studio.engines.idle_unloader import IdleUnload
        from studio.engines.model_manager import ModelManager
        from studio.engines.model_switch import ModelCatalog
        from studio.engines.zero_gpu import is_zero_gpu
        from studio.periodic import every

        def load(model: str, progress: LoadingProgress) -> SpeechEngine:
            release_memory()  # of the previous model, before the next one measures free memory
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
    def services(self, notices: dict[str, UserMessage] | None = None) -> Iterator[AppContext]:
        """Open the services of a server: database and model. SIGTERM closes them. notices: as for `models`.

        Raises DatabaseUnavailable, also if the store of sounds cannot be written.
        """
        from studio.bounded_pool import has_running_jobs
        from studio.context import AppContext

        watermark = self.watermark()
        with exit_on_signal(), self._saved_storage() as storage:
            storage.check_store()
            with self.models(notices or {}) as manager:
                yield AppContext.create(manager, storage, watermark)
        if has_running_jobs():
            say("A job that is running, such as a transcription, ends first. Press Ctrl-C to exit at once.")
            exit_on_next_ctrl_c()

    def watermark(self) -> Watermark | None:
        """Load the watermark for files if it is requested. Raises InvalidOption if it is not installed."""
        from studio.provenance.watermark import load_watermark

        return load_watermark() if self.watermarked else None

    def built_in_voices(self) -> list[BuiltInSpeaker] | None:
        """Return the model's built-in voices without loading it; None if the model is not on this machine."""
        from studio.voices.available_voices import built_in_voices_of

        return built_in_voices_of(self.model)

    def check_words(self, transcript: str, missing: str) -> None:
        """Refuse a clip without a transcript before loading the model, if the model is known to need one.

        missing: the error's message. Raises InvalidInput.
        """
        from studio.voices.available_voices import capabilities_of

        capabilities = None if transcript.strip() else capabilities_of(self.model)
        if capabilities is not None and capabilities.needs_transcript:
            raise InvalidInput(missing)

    def check_voice(self, library: VoiceLibrary, name: str, owner: str = "local") -> None:
        """Refuse a voice that neither the owner nor the model has, before loading the model.

        A model that is not on this machine may have any voice. Raises VoiceNotFound.
        """
        try:
            library.find(name, owner=owner)
        except VoiceNotFound:
            own = self.built_in_voices()
            if own is not None and not any(voice.is_called(name) for voice in own):
                raise

    def _library_location(self) -> str | Path:
        """Return the file or URL of the library. Raises InvalidOption for a user without a home folder."""
        from platformdirs import user_data_path

        try:
            return self.database or user_data_path("reprise") / "voices.db"
        except RuntimeError as error:  # as in containers that run as any user
            raise InvalidOption(
                "This user has no home folder for the voice library: name its file by --database."
            ) from error

    @contextmanager
    def _saved_storage(self) -> Iterator[Storage]:
        """Open the database as `storage` does, with snapshots of its file, if they are kept.

        They are saved while it is open and once it is closed; a library that cannot be opened replaces none.
        Raises InvalidOption for snapshots of a library on a server, and DatabaseUnavailable if they cannot be saved.
        """
        from studio.periodic import every

        snapshots = self._snapshots()
        if snapshots is None:
            if self.snapshots:
                raise InvalidOption("Snapshots are of a library in a file; a server has its own backups.")
            with self.storage() as storage:
                yield storage
            return
        with ExitStack() as closed, self.storage() as storage:
            snapshots.check()
            closed.callback(snapshots.save)
            with every(SNAPSHOT_SECONDS, snapshots.save):
                yield storage

    def _snapshots(self) -> LibrarySnapshots | None:
        """Return the library's snapshots; None if none are kept, and for a library on a server.

        Raises DatabaseUnavailable for an invalid URL.
        """
        folder = self.snapshots or _space_folder(self.database)
        if folder is None:
            return None
        from storage.database import library_file
        from storage.sqlite.snapshots import LibrarySnapshots

        file = library_file(self._library_location())
        return LibrarySnapshots(file, folder) if file else None

    def _load(self, model: str, progress: LoadingProgress) -> SpeechEngine:
        names = ("precision", "graphs", "compiled", "deterministic", "slots")
        given = {name: value for name in names if (value := getattr(self, name))}
        if self.cluster:
            return self._connect(self.cluster, given)
        from engine.engine import Engine
        from studio.engines.zero_gpu import ZeroGpuEngine, is_zero_gpu

        if is_zero_gpu():
            return ZeroGpuEngine(Engine.load(model, self.device, progress=progress, start=False, **given))
        return Engine.load(model, self.device, progress=progress, **given)

    def _connect(self, address: str, given: dict[str, Any]) -> SpeechEngine:
        """Connect to the engine on a cluster. Raises InvalidOption, EngineFailed."""
        require("ray")
        from studio.cluster.deployment import connect
        from studio.cluster.messages import DeploymentSettings, EngineSettings

        engine = EngineSettings(self.model, self.device, **given)
        settings = DeploymentSettings(engine, parse_replicas(self.replicas), self.replica_gpus)
        return connect(address, settings, attach=self.reuse_deployment)


def parse_replicas(text: str) -> tuple[int, int]:
    """Parse the minimum and maximum number of replicas from a text such as 2 or 1-8. Raises InvalidOption."""
    bounds = [int(number) if number.isdecimal() else 0 for number in text.split("-")]
    if len(bounds) > 2 or not 1 <= bounds[0] <= bounds[-1]:
        raise InvalidOption(
            f"“{text}” is not a valid number of replicas: write it as 2, or as 1-8 for the least and the most."
        )
    return bounds[0], bounds[-1]


def context_of(context: typer.Context, **options: str | None) -> CommandContext:
    """Return the command's context. options: given after the command; they override those before it."""
    shared: CommandContext = context.obj
    return replace(shared, **{name: value for name, value in options.items() if value})  # type: ignore[arg-type]


def require(package: str, least: int = 0) -> None:
    """Raise InvalidOption if a package that a command needs is missing or too old.

    least: the minimum major version.
    """
    if not has_package(package, least):
        raise InvalidOption(
            f"This command needs the package “{package}”: install it with “pip install -r requirements-extra.txt”."
        )


def model_notices(model: str, models: list[str]) -> dict[str, UserMessage]:
    """Return the models to choose from, each with its license notice; empty if there is no choice.

    Raises ReleaseNotFound.
    """
    from engine.families.registry import notice_of
    from engine.messages import UserMessage

    return {name: UserMessage(notice_of(name)) for name in dict.fromkeys([model, *models])} if models else {}


def _space_folder(database: str | None) -> Path | None:
    """Return a Space's folder for snapshots, in its /data, unless a library is named."""
    on_space = bool(os.environ.get("SPACE_ID")) and not database
    return SPACE_DATA / "reprise" if on_space and os.access(SPACE_DATA, os.W_OK) else None


def _show_loading(stage: str, done: float) -> None:
    status_line(f"{stage} … {done:.0%}" if done < 1 else "")
