"""Handlers of the Script tab, without a page: creation, edits, speech, and patches of the page's state."""

import inspect
import threading
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import Storage
from storage.scripts.limits import MAX_SCRIPT_NAME
from studio import recognition
from studio.books.reading import Book
from studio.script import Script, parse
from studio.script.casting import initial_cast
from studio.script.runner import ScriptRunner
from tests.studio.books.making import epub, picture
from tests.support.fake_engine import FakeEngine, voice
from tests.support.looping import run, run_beside_two
from tests.support.waiting import until
from tests.web.conftest import make_context, store_upload
from web.context import WebContext
from web.identity.owners import OwnerResolver
from web.limits.budgets import Budgets, Limits
from web.tabs.script import handlers, views
from web.tabs.script.handlers import ScriptHandlers
from web.tabs.script.views import ScriptPatcher

REQUEST: Any = SimpleNamespace(headers={"accept-language": "en"}, username=None)
PLAY = "Ann: Good morning!\nBen: Is it?\n\nAnn: It is."


class Page:
    """A client with the tab open. `state`: the script as the page has it."""

    def __init__(self, events: ScriptHandlers, token: Any = None) -> None:
        self.events, self.token = events, token
        self.script, self.version = "", ""
        self.state: dict[str, Any] = {"cards": {}, "order": [], "head": None}
        self.number = 0

    def make(self, text: str, picked: Any = None) -> str:
        trouble, *_, desk, _ = self.events.create_script(text, picked, self.token, REQUEST)
        assert trouble == ""
        self.open(desk["show"])
        return self.script

    def open(self, script: str) -> dict[str, Any]:
        self.script, self.version = script, ""
        return self.ask("open")

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        self.number += 1
        question = {"number": self.number, "do": do, "script": self.script, "version": self.version, "values": values}
        answer, rung = self.events.run_action(self.token, REQUEST, gr.EventData(None, question))
        assert answer["number"] == self.number
        if answer.get("state"):
            self.apply(answer["state"])
        return {**answer, "rung": rung != gr.skip()}

    def apply(self, patch: dict[str, Any]) -> None:
        assert patch["since"] in ("", self.version)
        known = self.state["cards"] if patch["since"] else {}
        known |= {card["id"]: card for card in patch["cards"]}
        order = patch["order"] or self.state["order"]
        self.state = {"cards": {id: known[id] for id in order}, "order": order, "head": patch["head"]}
        self.version = patch["version"]

    @property
    def cards(self) -> list[dict[str, Any]]:
        return list(self.state["cards"].values())

    @property
    def texts(self) -> list[str]:
        return [card["text"] for card in self.cards]

    def spoken(self) -> None:
        until(lambda: self.ask("poll")["state"] is None and not self.state["head"]["running"])


@pytest.fixture
def events(context: WebContext) -> ScriptHandlers:
    return ScriptHandlers(context)


@pytest.fixture
def page(events: ScriptHandlers, storage: Storage) -> Page:
    storage.voices.add(voice("Ann"))
    return Page(events)


def test_repeated_command_runs_once(page: Page) -> None:
    """After a lost response the page sends the command again. Each page numbers its own commands."""
    page.make("One thing.")
    command = {"number": 5, "page": "a", "do": "insert", "script": page.script, "version": ""}
    counts, rung = [], []
    for values in ({"page": "a"}, {"page": "a"}, {"page": "b"}):
        event = gr.EventData(None, {**command, **values, "values": {"card": page.cards[0]["id"], "text": "Another."}})
        answer, broadcast = page.events.run_action(None, REQUEST, event)
        assert "problem" not in answer, answer
        counts.append(len(answer["state"]["order"]))
        rung.append(broadcast != gr.skip())
    assert (counts, rung) == ([2, 2, 3], [True, False, True])


def test_text_becomes_cards_in_the_picked_voice(page: Page, storage: Storage) -> None:
    ben = storage.voices.add(voice("Ben")).id
    page.make("One thing.\n\nAnother.", ben)
    assert [(card["speaker"], card["text"], card["voice"], card["state"]) for card in page.cards] == [
        (None, "One thing.", ben, "new"),
        (None, "Another.", ben, "new"),
    ]
    head = page.state["head"]
    assert (head["name"], head["cards"], head["done"], head["wait"]) == ("One thing.", 2, 0, None)
    voices = {each["name"]: each["id"] for each in page.open(page.script)["voices"]}
    assert voices["Ben"] == ben
    page.make("One. Two.", "no such voice")
    assert page.cards[0]["voice"] in voices.values()
    (listed,) = [each for each in page.ask("list")["scripts"] if each["id"] == page.script]
    assert listed["changed"] == storage.scripts.get(page.script).updated.isoformat()


def test_dialogue_is_cast_with_several_voices(page: Page, storage: Storage) -> None:
    (ann,) = (record.id for record in storage.voices.list())
    ben = storage.voices.add(voice("Ben")).id
    page.make(PLAY, ben)
    assert [(card["speaker"], card["voice"]) for card in page.cards] == [("Ann", ann), ("Ben", ben), ("Ann", ann)]
    page.make(PLAY.replace("Ben", "Carl"), ann)
    assert [card["voice"] for card in page.cards] == [ann, ben, ann]


@pytest.mark.parametrize(("language", "name"), [("en", "NARRATOR"), ("de", "ERZÄHLER"), ("de", "Narrator")])
def test_lines_of_the_narrator_have_the_same_voice_as_unnamed_text(
    page: Page, storage: Storage, monkeypatch: pytest.MonkeyPatch, language: str, name: str
) -> None:
    ben = storage.voices.add(voice("Ben")).id
    monkeypatch.setitem(REQUEST.headers, "accept-language", language)
    page.make(f"Once upon a time.\n\n{name}: It rained.\nAnn: A lot.\n{name}: For days.", ben)
    cast = [(card["speaker"], card["voice"] == ben) for card in page.cards]
    assert cast == [(None, True), (None, True), ("Ann", False), (None, True)]
    page.ask("speaker", card=page.cards[2]["id"], speaker=name)
    assert page.cards[2]["speaker"] is None


@pytest.mark.parametrize(
    ("speakers", "picked", "cast"),
    [
        ([None, None], "Ben", {None: "Ben"}),
        (["ben", "Anna", None, "ben"], "Zoe", {"ben": "Ben", "Anna": "Ann", None: "Zoe"}),
        (["Max", "Ben"], "Zoe", {"Max": "Zoe", "Ben": "Ben"}),
        (["Max", "Ben"], "Ben", {"Max": "Ann", "Ben": "Ben"}),
        ([None, "Ben", "Max"], "Ben", {None: "Ann", "Ben": "Ben", "Max": "José"}),
        ([None, "Max", "Eva"], "Ben", {None: "Ben", "Max": "Ann", "Eva": "José"}),
        (["JOSE\u0301", "Max"], "José", {"JOSE\u0301": "José", "Max": "Ann"}),
        (
            ["Max", "Eva", "Kim", "Ida", "Tom", "Uta"],
            "Ben",
            {"Max": "Ben", "Eva": "Ann", "Kim": "José", "Ida": "Zoe", "Tom": "Ben", "Uta": "Ann"},
        ),
        ([], "Ben", {}),
    ],
)
def test_initial_cast(speakers: list[str | None], picked: str, cast: dict[str | None, str]) -> None:
    voices: Any = [SimpleNamespace(id=name, name=name) for name in ("Ann", "Ben", "José", "Zoe")]
    assert initial_cast(speakers, voices, picked) == cast


def test_initial_cast_prefers_own_voice_over_a_sample() -> None:
    voices: Any = [SimpleNamespace(id="mine", name="Ben"), SimpleNamespace(id="sample", name="Ben")]
    assert initial_cast(["Ben"], voices, "sample") == {"Ben": "mine"}


@pytest.mark.parametrize("text", ["", " \n", None, 5, ["x"]])
def test_invalid_text_is_rejected(page: Page, text: Any) -> None:
    trouble, *_ = page.events.create_script(text, None, None, REQUEST)
    assert 'role="alert"' in trouble
    assert page.ask("list")["scripts"] == []


def test_text_of_speak_becomes_a_script_at_its_speed(page: Page) -> None:
    trouble, text, desk, _, tabs = page.events.move_text(
        "[speed:0.8] One.\n\nTwo.\n\n[speed:1] Three.", None, 1.25, page.token, REQUEST
    )
    assert (trouble, text, tabs.selected) == ("", "", "script")
    page.open(desk["show"])
    assert [card["speed"] for card in page.cards] == [0.8, 1.25, 1]
    trouble, *_, tabs = page.events.move_text("One.", None, 3, page.token, REQUEST)
    assert ('role="alert"' in trouble, tabs) == (True, gr.skip())


LONG_TITLE = "The Life and Strange Surprizing Adventures of Robinson Crusoe, of York, Mariner"


def import_file(page: Page, upload: dict[str, str]) -> tuple[Any, ...]:
    return run(page.events.import_script, None, page.token, REQUEST, gr.EventData(None, upload))


def test_files_become_scripts_with_their_name(page: Page, context: WebContext, tmp_path: Path) -> None:
    def bring(name: str, data: bytes) -> tuple[Any, ...]:
        path = store_upload(context.folder, name, data)
        return import_file(page, {"path": str(path), "name": name})

    _, desk, _ = bring("Chapter one.md", b"# Title\n\nSome words.\n\n```\ncode\n```\n")
    assert "Not read out (1): ``` code ```" in desk["message"]
    page.open(desk["show"])
    assert (page.state["head"]["name"], page.texts) == ("Chapter one", ["Title", "Some words."])
    _, desk, _ = bring(
        "film.srt", b"1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n2\n00:00:04,500 --> 00:00:05,000\nYou.\n"
    )
    page.open(desk["show"])
    assert [(card["text"], card["pause"]) for card in page.cards] == [("Hello.", 2.5), ("You.", 0.0)]
    _, desk, _ = bring("Lines.csv", "Figur;Zeile\r\nKönig;Wer da?\r\n".encode("windows-1252"))
    page.open(desk["show"])
    assert [(card["speaker"], card["text"]) for card in page.cards] == [("König", "Wer da?")]
    _, desk, _ = bring("saved.md", b"---\nparagraph-pause: 1.5\n---\n\nHello.\n\nYou. [pause:1]\n")
    page.open(desk["show"])
    assert page.state["head"]["paragraph_pause"] == 1.5
    assert [(card["text"], card["pause"]) for card in page.cards] == [("Hello.", 1.5), ("You.", 1.0)]
    assert list(context.folder.iterdir()) == [], "uploads are deleted"
    for name in ("novel.epub", "novel.DOCX", "novel.pdf"):
        trouble, *_ = bring(name, b"\0\1\2 not a book")
        assert "This book is damaged, or not the kind of file that its name says" in trouble, name
    named: dict[str, Any] = {
        "items": '<item id="c" href="c.png" media-type="image/png" properties="cover-image"/>',
        "metadata": "<dc:creator>Ann Writer</dc:creator>",
        "OEBPS/c.png": picture(),
    }
    _, desk, _ = bring("novel.epub", epub(["<p>Hello.</p>", "<p>Bye.</p>"], ["One", "Two"], LONG_TITLE, **named))
    page.open(desk["show"])
    assert (page.state["head"]["name"], [card["chapter"] for card in page.cards]) == (LONG_TITLE, ["One", "Two"])
    assert page.state["head"]["author"] == "Ann Writer"
    assert page.ask("cover")["cover"].startswith("data:image/jpeg;base64,")
    _, desk, _ = bring("saved.md", b'---\ntitle: "Emma"\nauthor: "Jane Austen"\nparagraph-pause: 1\n---\n\nHello.\n')
    page.open(desk["show"])
    assert (page.state["head"]["name"], page.state["head"]["author"]) == ("Emma", "Jane Austen")
    assert page.ask("cover")["cover"] == ""
    assert list(context.folder.iterdir()) == [], "uploads are deleted"
    trouble, *_ = bring("picture.PNG", b"words")
    assert "choose one whose name ends in .txt, .md, .markdown, .srt, .vtt, .csv, .tsv, .epub, .docx, .pdf." in trouble
    assert list(context.folder.iterdir()) == [], "refused files are deleted, too"
    (tmp_path / "secret.txt").write_text("not theirs")
    trouble, *_ = import_file(page, {"path": str(tmp_path / "secret.txt")})
    assert 'role="alert"' in trouble


def test_book_that_is_too_long_becomes_several_scripts(
    page: Page, context: WebContext, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book((parse("One."), parse("Two.")), 2 * LONG_TITLE)
    monkeypatch.setattr(handlers, "_read_file", lambda _path: book)
    _, opened, _ = import_file(page, {"path": str(store_upload(context.folder, "a.txt", b"a")), "name": "a.txt"})
    listed = storage.scripts.list()
    start = (2 * LONG_TITLE)[: MAX_SCRIPT_NAME - 6]
    assert [script.name for script in listed] == [f"{start} (1/2)", f"{start} (2/2)"]
    assert opened["show"] == listed[0].id
    assert "was split into 2" in opened["message"]


def test_files_are_read_on_few_threads_of_their_own(
    page: Page, context: WebContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each address, two are read or wait: a book can take a minute and much memory."""
    assert inspect.iscoroutinefunction(page.events.import_script), "Gradio would run it on its own threads"
    go, read_file = threading.Event(), handlers._read_file
    monkeypatch.setattr(handlers, "_read_file", lambda path: go.wait(30) and read_file(path))

    async def bring() -> Any:
        upload = {"path": str(store_upload(context.folder, "a.txt", b"Hello."))}
        return await page.events.import_script(None, None, REQUEST, gr.EventData(None, upload))

    replies = run_beside_two(bring, go)
    assert "busy with other files" in replies[0][0]
    assert [trouble for trouble, *_ in replies[1:]] == ["", ""]
    assert list(context.folder.iterdir()) == [], "uploads are deleted"


def test_patches_contain_only_changes(page: Page) -> None:
    page.make("\n\n".join(f"Card number {number}." for number in range(40)))
    assert page.ask("poll")["state"] is None
    answer = page.ask("edit", card=page.cards[7]["id"], text="Other words.")
    assert answer["rung"]
    assert [card["text"] for card in answer["state"]["cards"]] == ["Other words."]
    assert answer["replaced"] == "Card number 7."
    assert answer["state"]["order"] is None
    answer = page.ask("move", card=page.cards[7]["id"], position=0)
    assert (answer["state"]["cards"], len(answer["state"]["order"])) == ([], 40)
    assert page.texts[:2] == ["Other words.", "Card number 0."]
    assert page.ask("open")["state"] is None


def test_pages_stay_in_sync_and_outdated_pages_get_everything(
    page: Page, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "KEPT", 3)
    other = Page(page.events)
    other.open(page.make(PLAY))
    page.ask("edit", card=page.cards[0]["id"], text="Changed here.")
    other.ask("poll")
    assert other.state == page.state
    for number in range(4):  # one more than the versions that are kept
        page.ask("pause", card=page.cards[0]["id"], seconds=number / 10)
    answer = other.ask("poll")
    assert answer["state"]["since"] == ""
    assert other.state == page.state
    storage.scripts.discard(page.script)
    assert page.ask("poll")["gone"] is True


def test_take_deleted_elsewhere_is_gone_on_open(page: Page, storage: Storage) -> None:
    page.make("One.")
    page.ask("speak")
    page.spoken()
    storage.history.delete(page.cards[0]["take"])
    page.ask("open")
    assert (page.cards[0]["take"], page.cards[0]["state"]) == (None, "new")


def test_speak_stop_and_redo(page: Page, engine: FakeEngine) -> None:
    page.make(PLAY)
    assert page.ask("save", format="wav")["problem"].startswith("Nothing in this script")
    page.ask("speak", card=page.cards[1]["id"])
    page.spoken()
    assert [card["state"] for card in page.cards] == ["new", "spoken", "spoken"]
    saved = page.ask("save", format="srt")
    assert saved["url"].startswith("/reprise/files/")
    assert "1 of 3 cards" in saved["message"]
    assert page.ask("speak", card=page.cards[1]["id"])["message"].startswith("There is nothing to speak here")
    page.ask("lock", card=page.cards[0]["id"], locked=True)
    assert page.ask("speak")["message"].startswith("There is nothing to speak here"), "the first card is locked"
    page.ask("lock", card=page.cards[0]["id"], locked=False)
    page.ask("speak")
    page.spoken()
    assert page.state["head"]["done"] == 3
    assert page.state["head"]["wait"] == 0
    assert page.ask("speak")["message"].startswith("Everything is spoken")
    card = page.cards[0]
    assert page.ask("listen", card=card["id"], take=card["take"])["url"].startswith("/reprise/files/")
    page.ask("redo", card=card["id"])
    page.spoken()
    assert page.cards[0]["take"] != card["take"]
    takes = page.ask("takes", card=card["id"])["takes"]
    assert [(take["chosen"], take["fits"], take["voice"]) for take in takes] == [
        (True, True, "Ann"),
        (False, True, "Ann"),
    ]
    chosen = page.ask("choose", card=card["id"], take=card["take"])
    assert [take["chosen"] for take in chosen["takes"]] == [False, True]
    page.ask("lock", card=card["id"], locked=True)
    assert "locked" in page.ask("redo", card=card["id"])["problem"]
    engine.script.pace = 2.0
    page.ask("redo", card=page.cards[1]["id"])
    page.ask("stop")
    assert not page.state["head"]["running"]
    assert page.cards[1]["state"] == "spoken", "the earlier take is kept"


def test_cards_are_edited(page: Page, storage: Storage) -> None:
    ben = storage.voices.add(voice("Ben")).id
    page.make(PLAY)
    first, second, third = (card["id"] for card in page.cards)
    page.ask("cast", speaker="Ben", voice=ben)
    page.ask("speaker", card=third, speaker="Ben")
    assert [card["voice"] == ben for card in page.cards] == [False, True, True], "cards have the voice of their speaker"
    page.ask("voice", card=first, voice=ben)
    page.ask("speaker", card=first, speaker="")
    assert (page.cards[0]["speaker"], page.cards[0]["voice"]) == (None, ben)
    made = page.ask("insert", card=second, text="Something new.")["card"]
    assert page.cards[2] | {"pause": 0} == page.cards[2] | {"id": made, "speaker": "Ben", "voice": ben, "pause": 0}
    page.ask("merge", card=second)
    assert page.texts == ["Good morning!", "Is it? Something new.", "It is."]
    page.ask("split", card=second, at=7)
    assert page.texts == ["Good morning!", "Is it?", "Something new.", "It is."]
    page.ask("remove", card=second)
    assert page.texts == ["Good morning!", "Something new.", "It is."]
    answer = page.ask("edit", card=first, text=' <speak>Hi <break time="1s"/> Ben. </speak>')
    assert (answer["replaced"], answer["saved"], page.texts[0]) == (
        "Good morning!",
        "Hi [pause:1s] Ben.",
        answer["saved"],
    )
    page.ask("speeds", speed=0.8)
    assert {card["speed"] for card in page.cards} == {0.8}
    page.ask("rename", id=page.script, name="A morning")
    assert page.state["head"]["name"] == "A morning"
    storage.voices.delete(ben)
    page.ask("insert", card=page.cards[1]["id"], text="With no voice.")
    assert page.cards[2]["voice"] is None, "a deleted voice is not passed on"
    (line,) = page.ask("discard", id=page.script)["scripts"] or [None]
    assert line is None


def test_author_cover_and_chapters(page: Page) -> None:
    page.make("# One\n\nHello.\n\n# Two\n\nBye.")
    assert page.ask("author", name=" Ann  Writer ")["rung"]
    assert page.state["head"]["author"] == "Ann Writer"
    page.ask("set_cover", text=b64encode(picture()).decode())
    assert page.ask("cover")["cover"].startswith("data:image/jpeg;base64,")
    mark = page.state["head"]["cover"]
    for wrong in ("no base64", ".", b64encode(b"no picture").decode()):
        assert "not a picture" in page.ask("set_cover", text=wrong)["problem"]
    assert page.state["head"]["cover"] == mark
    page.ask("set_cover")
    assert (page.state["head"]["cover"], page.ask("cover")["cover"]) == (None, "")
    page.ask("remove_chapters", chapters=[page.cards[0]["id"]])
    assert page.texts == ["Two", "Bye."]


@pytest.mark.parametrize(
    ("do", "values"),
    [
        ("edit", {"text": "no card"}),
        ("author", {}),
        ("remove_chapters", {"chapters": ["x"]}),
        ("edit", {"card": 5, "text": "x"}),
        ("pause", {"card": "x", "seconds": "1"}),
        ("pause", {"card": "x", "seconds": float("nan")}),
        ("move", {"card": "x", "position": True}),
        ("save", {"format": "exe"}),
        ("no such thing", {}),
        ("__init__", {}),
        ("listen", {"take": "\0" * 500}),
        ("cast", {"speaker": "Ann", "voice": None}),
    ],
)
def test_invalid_actions_are_answered_with_a_message(page: Page, do: str, values: dict[str, Any]) -> None:
    page.make(PLAY)
    before = page.state
    assert page.ask(do, **values)["problem"]
    assert page.state == before


def test_speaker_whose_voice_is_deleted_can_be_chosen(page: Page, storage: Storage) -> None:
    ben = storage.voices.add(voice("Ben")).id
    page.make(PLAY)
    assert [card["voice"] for card in page.cards][1] == ben
    storage.voices.trash(ben)
    last = page.cards[2]
    assert "problem" not in page.ask("speaker", card=last["id"], speaker="Ben")
    assert (page.cards[2]["speaker"], page.cards[2]["voice"]) == ("Ben", last["voice"])


def test_refused_check_frees_its_budget(context: WebContext, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a script that was discarded in another page."""
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    object.__setattr__(context, "budgets", Budgets({"local": Limits(scripts=1)}))
    page.script = "f" * 32
    for _ in range(2):
        assert "no such script" in page.ask("proof")["problem"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    question=st.dictionaries(
        st.sampled_from(["number", "do", "script", "version", "values"]),
        st.none() | st.integers() | st.text(max_size=5) | st.dictionaries(st.sampled_from(["card", "id"]), st.text()),
    )
)
def test_arbitrary_actions_are_answered(page: Page, question: dict[str, Any]) -> None:
    answer, _ = page.events.run_action(None, REQUEST, gr.EventData(None, question))
    asked = question.get("number")
    assert answer["number"] == (asked if type(asked) is int and 0 <= asked <= 2**53 else None)


def test_script_in_progress_during_a_deletion_is_not_created(
    events: ScriptHandlers, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_parse(text: str, *, speed: float) -> Script:
        storage.delete_owner("local")
        return parse(text, speed=speed)

    monkeypatch.setattr(handlers, "parse", slow_parse)
    assert "deleted in the meantime" in events.create_script(PLAY, None, None, REQUEST)[0]
    assert storage.scripts.list() == []


def test_scripts_of_other_owners_are_unreachable(engine: FakeEngine, storage: Storage, tmp_path: Path) -> None:
    context = make_context(engine, storage, tmp_path, "browser")
    events = ScriptHandlers(context)
    owners: OwnerResolver = context.owners
    ann, eve = (Page(events, owners.resolve_or_issue(REQUEST, None).token) for _ in range(2))
    script = ann.make(PLAY)
    card = ann.cards[0]["id"]
    eve.script = script
    for do, values in {
        "open": {}, "poll": {}, "speak": {}, "stop": {}, "cast": {"voice": ""},
        "takes": {"card": card}, "redo": {"card": card}, "edit": {"card": card, "text": "Mine."},
        "remove": {"card": card}, "lock": {"card": card, "locked": True}, "save": {"format": "wav"},
        "discard": {"id": script}, "rename": {"id": script, "name": "Mine"},
    }.items():  # fmt: skip
        answer = eve.ask(do, **values)
        assert answer["gone"] is True
        assert answer["state"] is None
        assert do in ("open", "poll") or "no such" in answer["problem"]
    assert eve.ask("list")["scripts"] == []
    ann.ask("open")
    assert ann.texts == ["Good morning!", "Is it?", "It is."]
    storage.delete_owner(owners.resolve(REQUEST, eve.token).key)
    eve.make("One of her own, after she deleted all her data.")
    stranger = Page(events, "made up")
    assert stranger.events.run_action("made up", REQUEST, gr.EventData(None, {"number": 1}))[0]["problem"]


def test_name_from_the_text_is_shortened(page: Page) -> None:
    page.make("A sentence with so many words that no list of scripts would have room for all of them.")
    assert page.state["head"]["name"] == "A sentence with so many words that no list of…"


def test_unknown_version_gets_the_whole_script(context: WebContext, page: Page, storage: Storage) -> None:
    patcher = ScriptPatcher(storage, ScriptRunner(context.engine, storage), context.proof_runner)
    script = page.make("One.")
    first = patcher.patch("local", script, "", context.texts(None))
    assert first is not None
    assert patcher.patch("local", script, first["version"], context.texts(None), read_cards=False) is None
    again = patcher.patch("local", script, "made up", context.texts(None))
    assert again is not None
    assert again["since"] == ""
    assert again["cards"] == first["cards"]
