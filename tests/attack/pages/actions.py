"""What a visitor does on the page: each action is a small function that returns steps."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

LONG = "The boats come back along the river, as they did every evening. " * 2
TEXTS = ("Hello there.", "The rain has stopped.", "One. Two. Three. Four.", "Is it late? Yes.", LONG)
SCRIPTS = ("Ann: Hello there.\n\nBen: Hello.\n\nAnn: Is it late?", "The rain.\n\n" * 3, "")
NAMES, WORDS = ("Ann", "Ben", "Ada Lovelace", "", "Ann"), ("SQL", "rain", "GIF", "rain")
TABS = ("speak", "new", "library", "script", "history", "status")
ANY = ".gradio-container button:not([role=tab]), .gradio-container summary"
KEPT = "#rp-history-kept .label-wrap:not(.open)"  # the closed settings of History
LINKED = (
    ("library", "voice", ".rp-lib-cards [data-id]"), ("history", "take", ".rp-entry-text"),
    ("script", "script", ".rp-script-list [data-id]"),
)  # fmt: skip
KEYS = ("Escape", "Escape", "Tab", "Control+Enter", "Enter", "ArrowDown", "Space")


@dataclass(frozen=True)
class Step:
    """A single input. on: a selector, a key or a tab. pick: which of the shown elements, modulo their number.

    text: what is typed or chosen; the files of `FILES`; the kind of a link to one of the elements' items; milliseconds,
    for "wait", for "cut", which ends all connections and refuses new ones meanwhile, and for "hold", which holds all
    data back meanwhile.
    """

    do: Literal[
        "click", "type", "choose", "language", "tab", "focus", "key", "files", "link", "page", "cut", "hold", "back",
        "forward", "reload", "end", "wait",
    ]  # fmt: skip
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
            return replace(part, pick=chance.randrange(999))
        case (str(field), texts):
            return Step("type", field, chance.choice(list(texts)))
        case _:
            return click(part if isinstance(part, str) else str(chance.choice(part)), chance.randrange(999))


def speak_to_the_end(chance: random.Random) -> list[Step]:
    return [*speak(chance), Step("end"), Step("wait", text=str(chance.randrange(150)))]


def several_takes(chance: random.Random) -> list[Step]:
    return [Step("tab", "speak"), Step("choose", ".rp-at-once", chance.choice("12234")), click("#rp-speak")]


def keep_one_take(chance: random.Random) -> list[Step]:
    others = [click(".rp-group-take", chance.randrange(4)) for _ in range(chance.randrange(3))]
    return [*several_takes(chance), Step("end"), *others, click(".rp-group-keep")]


def press_twice(on: str, tab: str) -> Action:
    """An action that presses one button two or three times."""
    return lambda chance: [Step("tab", tab), *[click(on, chance.randrange(999))] * chance.choice((2, 2, 3))]


def hold_back(chance: random.Random) -> list[Step]:
    return [Step("hold", text=str(chance.choice((300, 1_500, 4_000))))]


def stop_while_held_back(chance: random.Random) -> list[Step]:
    *written, begin = speak(chance)
    begun = [begin, *hold_back(chance)] if chance.random() < 0.5 else [*hold_back(chance), begin]
    stop = click(chance.choice(("#rp-stop", ".rp-stop-all")))
    return [*written, *begun, Step("wait", text=str(chance.randrange(300))), stop]


def cancel_upload(chance: random.Random) -> list[Step]:
    tab, field, file = chance.choice((("script", SCRIPT_FILE, "script"), ("status", ".rp-checker input", "clip")))
    upload = [*hold_back(chance), Step("files", field, file), click(f"#rp-tab-{tab} .rp-sending button")]
    return [Step("tab", tab), click(".rp-script-back"), *upload]


def delete_history(chance: random.Random) -> list[Step]:
    name, answer = chance.choice(("clear", "clear", "forget")), chance.choice(("keep", "sure"))
    return using(KEPT, f"#rp-{name}", f"#rp-{name}-{answer}", tab="history")(chance)


def go_to_a_tab(chance: random.Random) -> list[Step]:
    return [Step("tab", chance.choice(TABS))]


def press_a_key(chance: random.Random) -> list[Step]:
    return [Step("key", chance.choice(KEYS))]


def navigate(chance: random.Random) -> list[Step]:
    return [Step(chance.choice(("back", "back", "forward", "reload", "page")))]


def follow_a_link(chance: random.Random) -> list[Step]:
    tab, kind, on = chance.choice(LINKED)
    return [Step("tab", tab), Step("link", on, kind, chance.randrange(999))]


def switch_language(chance: random.Random) -> list[Step]:
    return [Step("language", ".rp-tongue select", chance.choice(("en", "en", "de", "fr", "ja")))]


def lose_the_connection(chance: random.Random) -> list[Step]:
    ms = Step("cut", text=str(chance.choice((0, 200, 2_000, 6_000))))
    steps = chance.choice(ACTIONS)(chance)
    return [ms, *steps] if chance.random() < 0.5 else [*steps, ms]


def record(chance: random.Random) -> list[Step]:
    pause = Step("wait", text=str(chance.choice((0, 300, 3_200, 3_200, 4_500))))
    again = chance.choice((".rp-record", ".rp-record", ".rp-again"))
    return [Step("tab", "new"), click(again, chance.randrange(9)), pause, click(".rp-record")]


def move_trim_handles(chance: random.Random) -> list[Step]:
    keys = [Step("key", chance.choice(("PageDown", "PageUp", "ArrowLeft", "Shift+ArrowRight"))) for _ in range(3)]
    return [Step("tab", "new"), Step("focus", ".rp-handle", pick=chance.randrange(9)), *keys]


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
ADVANCED = "#rp-advanced button.label-wrap:not(.open)"
SETTINGS = (
    ("#rp-seed input", ("", "7", "42")), ("#rp-temperature input[type=number]", ("0.5", "1.2")),
    ("#rp-paragraph-pause input[type=number]", ("0", "1.5")),
    ("#rp-take-speed input[type=number]", ("1", "1.3")),
)  # fmt: skip
SCRIPT_FILE = ".rp-script-overview > [type=file]"
add_clips = using(Step("files", ".rp-file", "clips"), tab="new")
PREPARATIONS: list[Action] = [speak_to_the_end, add_word, duplicate_voice, make_script, add_clips]
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
    lose_the_connection, lose_the_connection, follow_a_link, switch_language, record, record, move_trim_handles,
    using(".rp-theme"), using(".rp-mute"), using(Step("choose", ".rp-speed", "1.25")),
    *[using(ADVANCED, setting, tab="speak") for setting in SETTINGS], using(ADVANCED, "#rp-reset", tab="speak"),
    using(".rp-take-more:not([open]) > summary", ".rp-take-seed", tab="speak"),
    using(("#rp-describe textarea", TEXTS), tab="new"), using(("#rp-name input", NAMES), tab="new"),
    add_clips,
    *[using(".rp-clip-line button", tab="new")] * 3, using(".rp-trim button", tab="new"),
    using(".rp-clip-name", (".rp-words", TEXTS), tab="new"), using(".rp-doctor button", tab="new"),
    using("[data-act=clips]", [".rp-as-new", ".rp-keep", ".rp-clip-line button", "#rp-save"], tab="library"),
    *[using("[data-act=remove]", f"[data-act={act}]", tab="library") for act in ("restore", "restore", "purge")],
    using("[data-act=restore]", tab="library"), using("[data-act=export]", tab="library"),
    using("[data-act=edit]", Step("files", ".rp-lib-picture input", "picture"), tab="library"),
    using("[data-act=edit]", ["[data-act=no_picture]", "[data-act=cancel]"], tab="library"),
    using(Step("files", ".rp-lib-tools input", "voices"), tab="library"),
    using(".rp-lib-offers button", tab="library"), using((".rp-lib-find input", ("ada", "x", "")), tab="library"),
    using(Step("choose", ".rp-lib-bar select", "newest"), tab="library"),
    using("[data-rp-dictionary]", Step("files", ".rp-dictionary [type=file]", "words"), tab="speak"),
    using("#rp-history-starred input", tab="history"), using(".rp-more", tab="history"),
    using(".rp-entry-again", tab="history"),
    *[using(".rp-script-title", ".rp-script-card-more[aria-expanded=false]", f".rp-script-card-{part}", tab="script")
      for part in ("buttons button", "buttons button", "takes button")],
    *[using(".rp-script-title", part, tab="script") for part in (
        ".rp-script-card-tools button", ".rp-script-card-tools button", (".rp-script-card-speaker", NAMES),
        (".rp-script-name", ("A play", "Act one")), (".rp-script-apart", ("0", "1.5")),
        (".rp-script-pace", ("1", "1.5")), ".rp-script-hear", ".rp-script-speak",
        Step("choose", ".rp-script-card-voice"), Step("choose", ".rp-script-roles select"))],
    using(".rp-script-back", Step("files", SCRIPT_FILE, "script"), ".rp-script-card-buttons button", tab="script"),
    cancel_upload, cancel_upload, keep_one_take, keep_one_take, stop_while_held_back, stop_while_held_back, hold_back,
    press_twice(".rp-take-star", "speak"), press_twice(".rp-entry-star", "history"),
    using(ADVANCED, ("#rp-take-speed input[type=number]", ("0.7", "1.3", "2")), "#rp-speak", Step("end"), tab="speak"),
    using(Step("files", ".rp-checker input", "clip"), tab="status"),
]  # fmt: skip
