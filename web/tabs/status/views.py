"""Views of the server's state for the Status tab."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.provenance.provenance import public_name

if TYPE_CHECKING:
    from studio.engines.model_manager import ModelManager
    from web.context import WebContext
    from web.ui.i18n import Texts

STATM = Path("/proc/self/statm")


def status_view(context: WebContext, session: str, texts: Texts) -> dict[str, Any]:
    """Return the board's value for status/facts.js. place: the session's place in the queue."""
    engine = context.engine
    status, place, loading = engine.status(), context.running.session_queue_position(session), engine.loading
    return {
        "name": public_name(engine.info.name),
        "notice": texts.write(engine.info.notice),
        "device": engine.info.device,
        "precision": status.precision,
        "graphs": status.graphs,
        "slots": status.slots,
        "speaking": status.speaking,
        "waiting": status.waiting,
        "place": None if place is None else place + 1,
        "wait": engine.speed.wait_seconds(status.slots, place),
        "factor": engine.speed.real_time_factor,
        "memory": process_memory(),
        "device_memory": status.device_memory,
        "prepared": sum(status.prefix_cache_bytes),
        "uptime": int(time.monotonic() - engine.started),
        "idle": engine.idle_seconds,
        "asleep": engine.asleep and loading is None,
        "loading": loading and {"name": public_name(loading.model), "waits": loading.waits, "done": loading.done},
    }


@dataclass(frozen=True)
class ModelChoices:
    """The models that the host allows. names: by the names that visitors see. loaded: such a name."""

    names: dict[str, str]
    loaded: str


def model_choices(engine: ModelManager) -> ModelChoices:
    """Return the models to choose from. Of a folder, only the last part is shown, unless two models would be alike."""
    alike = Counter(public_name(model) for model in engine.models)
    shown = {model: public_name(model) if alike[public_name(model)] == 1 else model for model in engine.models}
    names = {name: model for model, name in shown.items()}
    return ModelChoices(names, shown.get(engine.info.name, public_name(engine.info.name)))


def licence_html(licence: str) -> str:
    """Return HTML of a model's licence notice, shown before the model is loaded."""
    return f'<p class="rp-licence">{escape(licence)}</p>' if licence else ""


def process_memory(statm: Path = STATM) -> int:
    """Return the process's memory use in bytes; its peak on systems without /proc."""
    try:
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
