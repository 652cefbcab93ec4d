"""Events of the whole page."""

from typing import Any

from web.context import WebContext
from web.page import create_app

CONSENT = "rp-consent"  # a response about another voice unticks it


def test_no_response_overwrites_what_the_user_enters_or_chooses_meanwhile(context: WebContext) -> None:
    config: Any = create_app(context).config
    parts = {part["id"]: (part["type"], part["props"].get("elem_id") or "") for part in config["components"]}
    functions = config["dependencies"]
    kept = {
        target
        for function in functions
        for target, event in function["targets"]
        if event == "input" and f"answers.chose({target})" in str(function["js"])
    }
    filled = {output for function in functions if function["backend_fn"] for output in function["outputs"]}
    chosen = {output for output in filled if parts[output][0] in ("dropdown", "checkbox")} - kept
    assert [parts[each][1] for each in chosen] == [CONSENT]
    entered = [name for output in filled if parts[output][0] in ("textbox", "slider") for name in [parts[output][1]]]
    assert {"rp-text", "rp-seed", "rp-temperature"} <= set(entered)
    assert all(name.startswith("rp-") for name in entered), "by these ids the page recognises them"
