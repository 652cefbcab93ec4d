"""Finding a release: the bundled one, a local folder, or a Hugging Face repository, which is downloaded once."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from engine.errors import ReleaseForbidden, ReleaseIncomplete, ReleaseNotFound
from engine.files.hub_connection import client_error, hub_answers

BUNDLED = Path(__file__).resolve().parents[2] / "assets" / "bundled"
LoadingProgress = Callable[[str, float], None]
"""Called while a release is downloaded and loaded, with a description and the finished share, 0 to 1."""

_HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@(\w[\w.-]*(?:/\w[\w.-]*)*))?")
_HUB_FILES = [
    "*.json",
    "*.safetensors",
    "*.pth",
    "tokenizer.tiktoken",
    "merges.txt",
    "lexicon.json.gz",
]


def find_release(model: str | Path, progress: LoadingProgress | None = None) -> Path:
    """Return the folder of a release: `bundled`, a local folder, or a Hub id such as `fishaudio/s2-pro`.

    A Hub repository is downloaded once. Its id may be followed by `@` and a revision, which is a commit, a tag or a
    branch; by default it is the newest version. `HF_TOKEN` is used for gated repositories. Raises ReleaseNotFound,
    ReleaseForbidden or ReleaseIncomplete.
    """
    if str(model) == "bundled":
        return BUNDLED
    local = _local(model)
    if local and local.is_dir():
        return local
    return _download(model, progress)


def known_release(model: str) -> Path | None:
    """Return the folder of a release that is on this machine; None for one that would have to be downloaded first."""
    local = BUNDLED if model == "bundled" else _local(model)
    if local and local.is_dir():
        return local
    if (found := _parse_hub_id(model)) is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    repository, revision = found
    config = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def organization_of(model: str) -> str:
    """Return the owner of a Hub repository. Raises ReleaseNotFound for a file, and for ids the Hub refuses."""
    return _repository(model)[0].partition("/")[0]


def _repository(model: str | Path) -> tuple[str, str | None]:
    """Return the id of a Hub repository and its revision, if one is named. Raises ReleaseNotFound."""
    if _local(model):
        raise ReleaseNotFound("release.is_file", folder=str(model))
    if isinstance(model, str) and (found := _parse_hub_id(model)) is not None:
        return found
    raise ReleaseNotFound("release.none", model=str(model))


def _local(model: str | Path) -> Path | None:
    """Return the path of a file or folder on this machine; None if there is none, or no such path is possible."""
    try:
        path = Path(model).expanduser()
        return path if path.exists() else None
    except (RuntimeError, OSError, ValueError):  # the home of an unknown user, too long a name, a null character
        return None


def _parse_hub_id(model: str) -> tuple[str, str | None] | None:
    """Return the repository and the revision of a text; None if the Hub does not accept such an id."""
    found = _HUB_ID.fullmatch(model)
    if found is None:
        return None
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # without `__all__`

    try:
        validate_repo_id(found[1])
    except HFValidationError:
        return None
    return found[1], found[2]


def _download(model: str | Path, progress: LoadingProgress | None) -> Path:
    from huggingface_hub import errors as hub
    from huggingface_hub import snapshot_download

    repo, revision = _repository(model)
    token = os.environ.get("HF_TOKEN") or None
    try:
        return Path(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=_HUB_FILES,
                token=token,
                local_files_only=not hub_answers(repo, token),
                tqdm_class=_progress_bar(progress) if progress else None,
            )
        )
    except hub.GatedRepoError as error:
        raise ReleaseForbidden("release.gated", repo=repo) from error
    except hub.RepositoryNotFoundError as error:
        raise ReleaseNotFound("release.no_repository", repo=repo) from error
    except hub.RevisionNotFoundError as error:
        raise ReleaseNotFound("release.no_revision", repo=repo, revision=revision or "main") from error
    except (hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled, client_error(), OSError) as error:
        raise ReleaseIncomplete("release.not_downloaded", repo=str(model)) from error


def _progress_bar(progress: LoadingProgress) -> type:
    """Return a tqdm class that reports to `progress`."""
    from tqdm.auto import tqdm

    class ReportingBar(tqdm):  # type: ignore[type-arg]  # tqdm's stubs are generic, the class is not
        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if self.total:
                progress(str(self.desc or "Downloading the model"), min(1.0, self.n / self.total))
            return shown

    return ReportingBar
