"""The version of a page: a hash of its events and scripts, which the page names in its calls.

Calls name events by their numbers. Another version numbers its events differently, so the gate refuses the calls of a
page that was opened before an upgrade.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

HEADER = "x-reprise-page"  # of calls; clients that are no page send none
META = "reprise-page"  # name of the <meta> element from which the page's scripts read the version


def page_version(config: Mapping[str, Any], scripts: str) -> str:
    """Return the version. config: the page's, as Gradio sends it to browsers. scripts: version of its modules."""
    events = [[event[key] for key in ("id", "targets", "inputs", "outputs")] for event in config["dependencies"]]
    return hashlib.sha256(json.dumps([events, scripts]).encode()).hexdigest()[:16]
