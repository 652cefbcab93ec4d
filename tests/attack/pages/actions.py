"""What a visitor does on the page: each action is a small function that returns steps."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

LONG = "The boats come back along the river, as they did every evening. " * 2
TEXTS = ("Hello there.", "The rain has stopped.", "One. Two. Three. Four.", "Is it late? Yes.", LONG)
SCRIPTS = ("Ann: Hello there.\n\nBen: Hello.\n\nAnn: Is it late?", "The rain.\n\n" * 3, "")
NAMES, WORDS = ("Ann", "Ben", "Ada Lovelace", "", "Ann"), ("SQL", "rain", "GIF", "rain")
TABS = ("speak", "new", "library", "script", "history", "status")
ANY = ".gradio-container button:not([role=tab]), .gradio-container summary"
KEPT = "#rp-history-kept .label-wrap:not(.open)"  # the closed settings of History
KEYS = ("Escape", "Escape", "Tab", "Control+Enter", "Enter", "ArrowDown", "Space")


@dataclass(frozen=True)
class Step:
    """A single input. on: a selector, a key or a tab. pick: which of the shown elements, modulo their number."""

    do: Literal["click", "type", "choose", "tab", "key", "files", "back", "forward", "reload", "end", "wait"]
    on: str = ""
    text: str = ""
    pick: int = 0


Action = Callable[[random.Random], list[Step]]
# A selector to click, several of which one is clicked, a field with the texts that it can get, or a step.
Part = str | list[str] | tuple[str, Sequence[str]] | Step


def click(on: str, pick: int = 0) -> Step:
    return Step("click", on, pick=pick)


def using(*parts: Part, tab: str = "") -> Action:
    """An action of these parts, on a tab if it is named."""
    opened = [Step("tab", tab)] if tab else []
    return lambda chance: [*opened, *(_step(part, chance) for part in parts)]


def _step(part: Part, chance: random.Random) -> Step:
    match part:
        case Step():
            return part
        case (str(field), texts):
            return Step("type", field, chance.choice(list(texts)))
        case _:
            return click(part if isinstance(part, str) else str(chance.choice(part)), chance.randrange(999))


def speak_to_the_end(chance: random.Random) -> list[Step]:
    return [*speak(chance), Step("end"), Step("wait", text=str(chance.randrange(150)))]


def several_takes(chance: random.Random) -> list[Step]:
    return [Step("tab", "speak"), Step("choose", ".rp-at-once", chance.choice("12234")), click("#rp-speak")]


def delete_history(chance: random.Random) -> list[Step]:
    name, answer = chance.choice(("clear", "clear", "forget")), chance.choice(("keep", "sure"))
    return using(KEPT, f"#rp-{name}", f"#rp-{name}-{answer}", tab="history")(chance)


def go_to_a_tab(chance: random.Random) -> list[Step]:
    return [Step("tab", chance.choice(TABS))]


def press_a_key(chance: random.Random) -> list[Step]:
    return [Step("key", chance.choice(KEYS))]


def navigate(chance: random.Random) -> list[Step]:
    return [Step(chance.choice(("back", "back", "forward", "reload")))]


speak = using(("#rp-text textarea", TEXTS), "#rp-speak", tab="speak")
add_word = using(
    "[data-rp-dictionary]", (".rp-dictionary [name=word]", WORDS), (".rp-dictionary [name=spoken]", ("sequel", "rane")),
    ".rp-dictionary .rp-dialog-save", tab="speak",
)  # fmt: skip
duplicate_voice = using("[data-act=duplicate]", tab="library")
make_script = using(".rp-script-back", ("#rp-script-text textarea", SCRIPTS), "#rp-script-make", tab="script")
save_voice = using(
    Step("files", ".rp-file"), (".rp-words", TEXTS), ("#rp-name input", NAMES), ("#rp-speaker input", NAMES),
    "#rp-consent input", "#rp-save", tab="new",
)  # fmt: skip
edit_voice = using(
    "[data-act=edit]", (".rp-lib-card-form [name=name]", NAMES), ["[data-act=save]", "[data-act=cancel]"], tab="library"
)
PREPARATIONS: list[Action] = [speak_to_the_end, add_word, duplicate_voice, make_script]
ACTIONS: list[Action] = [
    speak, speak, speak_to_the_end, speak_to_the_end, several_takes, add_word, duplicate_voice, make_script, save_voice,
    delete_history, go_to_a_tab, go_to_a_tab, press_a_key, press_a_key, navigate, *[using(ANY)] * 3,
    *[using(".rp-take-more:not([open]) > summary", ".rp-take button", tab="speak")] * 2,
    using("[data-rp-dictionary]", [".rp-dictionary tbody .rp-icon-button", ".rp-dialog-message button"], tab="speak"),
    using(KEPT, "#rp-history-keep input", tab="history"),
    using(KEPT, "#rp-history-days input", "[role=option]", tab="history"),
    using(("#rp-history-search input", ("rain", "boats", "", "x")), tab="history"),
    *[using(".rp-entry button", tab="history")] * 2,
    edit_voice,
    *[using([f"[data-act={act}]" for act in ("remove", "speak_with", "hear", "name", "clips")], tab="library")] * 2,
    using(".rp-script-speak", [".rp-script-stop", ".rp-script-hear", ".rp-script-back"], tab="script"),
    using((".rp-script-card-text", TEXTS), ".rp-script-status", tab="script"),
    *[using([".rp-script-list button", ".rp-script-cards button", ".rp-script-bar button"], tab="script")] * 2,
    using("#rp-speak"), using("#rp-speak", "#rp-stop"), using("#rp-stop"), using(".rp-stop-all"),
    using(".rp-rail-pick"), using(".rp-rail-star"), using(".rp-rail-star"), using(".rp-rail-hear"),
    using(".rp-gone button"), using(".rp-play"),
    using(".rp-take-star"), using(".rp-entry-star"),
]  # fmt: skip
