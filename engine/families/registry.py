"""Supported model families: their releases, by the `model_type` in `config.json`, and their licence notices."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.checks import shown
from engine.errors import UnknownFamily
from engine.families.family import Release
from engine.families.qwen3_tts import release as qwen3_tts
from engine.families.s2 import release as s2
from engine.files.bounded import read_object
from engine.release.hub import known_release, organization_of
from engine.release.profile import Profile


@dataclass(frozen=True)
class Family:
    """A family's entry.

    names: of its models, in messages. model_types: in `config.json`. read: reads a release folder. notice: key of the
    licence notice. organization: that publishes its models on the Hub, in lower case.
    """

    names: tuple[str, ...]
    model_types: tuple[str, ...]
    read: Callable[[Path], Release]
    notice: str
    organization: str


FAMILIES = (
    Family(("S2", "S1"), ("fish_qwen3_omni", "dual_ar"), s2.S2Release, s2.NOTICE, "fishaudio"),
    Family(("Qwen3-TTS",), ("qwen3_tts",), qwen3_tts.Qwen3TTSRelease, qwen3_tts.NOTICE, "qwen"),
)
_NAMES = tuple(name for family in FAMILIES for name in family.names)


def read_release(folder: Path) -> Release:
    """Read the sizes and the tokenizer of the release in `folder`.

    Raises UnknownFamily if the family is not supported, and InvalidConfig, InvalidCheckpoint or a ReleaseError if the
    release cannot be used.
    """
    kind = read_object(folder / "config.json").get("model_type")
    if kind is None:
        raise UnknownFamily("release.no_family", known=_NAMES)
    family = _family(kind)
    if family is None:
        raise UnknownFamily(
            "release.unknown_family", family=kind[:60] if isinstance(kind, str) else shown(kind), known=_NAMES
        )
    return family.read(folder)


def notice_of(model: str) -> str:
    """Return the licence notice of a model without loading it; see `Profile.notice`.

    A Hub repository that is not downloaded yet has the notice of its organization's family, if there is one. Raises
    InvalidConfig, and ReleaseNotFound for a model that is neither a folder nor a Hub id.
    """
    folder = known_release(model)
    if folder is None:
        organization = organization_of(model).lower()
        return next((each.notice for each in FAMILIES if each.organization == organization), "")
    config = folder / "config.json"
    family = _family(read_object(config).get("model_type")) if config.exists() else None
    return Profile.load(folder, Profile(notice=family.notice if family else "")).notice


def _family(model_type: object) -> Family | None:
    return next((each for each in FAMILIES if model_type in each.model_types), None)
