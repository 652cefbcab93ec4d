"""The history: what was spoken, hearing it, using it again, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import BeforeValidator, Field

from engine.errors import InvalidInput
from storage.library import MAX_SEARCH
from web.downloads.sounds import FORMATS
from web.tabs.library import views
from web.ui.events import Id, Picked, Sent, otherwise, parsed
from web.ui.messages import notice, sentence_of
from web.ui.wiring import ring, skips

if TYPE_CHECKING:
    from storage.repositories.generations import GenerationRecord, HistoryPage
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

PAGE = 20  # entries; "Show more" adds as many
MOST = 400  # entries at once
DAYS = (1, 7, 30, 90, 365, 3650)
SETTINGS = ("temperature", "top_p", "top_k")  # of the Speak tab, in its order, behind the seed
MEGABYTE = 1_000_000

Updates = tuple[Any, ...]


def _cut(search: Any) -> str:
    return search[:MAX_SEARCH].replace("\0", " ") if isinstance(search, str) else ""


class Wanted(Sent):
    """What of the history is to be shown. A field that holds anything else than the page fills in counts as empty."""

    search: Annotated[str, BeforeValidator(_cut), otherwise("")]
    voice: Picked
    starred: Annotated[bool, otherwise(False)]
    shown: Annotated[float, Field(allow_inf_nan=False), otherwise(PAGE)] = PAGE

    @property
    def count(self) -> int:
        """How many entries."""
        return int(max(PAGE, min(MOST, self.shown)))


class Entry(Sent):
    """One entry."""

    id: Id


class Star(Entry):
    """An entry to mark, or not to mark any more."""

    starred: bool


class Keep(Sent):
    """The switch."""

    wanted: bool


class KeepFor(Sent):
    """The days, 0 for what are no days."""

    days: Annotated[int, Field(ge=1, le=100_000), otherwise(0)]


class Remembering:
    """The events of the History tab. Ids come as the browser sent them; the history says what they are worth."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._history = house.studio.history

    @skips(5)
    def show(self, search: Any, voice: Any, starred: Any, shown: Any, token: Any, request: gr.Request) -> Updates:
        """The list, the voices to choose from, the switch, the days, and what all of it takes."""
        words = self._house.words(request)
        owner = self._house.owner(token, request)
        settings = self._history.settings(owner=owner.key)
        voices = [("", words("history.all_voices"))]
        voices += [(spoken.id, spoken.name) for spoken in self._history.voices(owner=owner.key)]
        wanted = parsed(Wanted, search=search, voice=voice, starred=starred, shown=shown)
        if wanted.voice not in [id for id, _ in voices]:
            wanted = wanted.model_copy(update={"voice": ""})
        return (
            self._listed(owner, wanted),
            gr.Dropdown(choices=[(name, id) for id, name in voices], value=wanted.voice),
            settings.history,
            gr.Dropdown(choices=_days(settings.retention_days, words), value=settings.retention_days),
            self._used(owner, words),
        )

    @skips(2)
    def find(self, search: Any, voice: Any, starred: Any, token: Any, request: gr.Request) -> Updates:
        """The list of what was asked for, and how many entries are shown: the first ones again."""
        owner = self._house.owner(token, request)
        return self._listed(owner, parsed(Wanted, search=search, voice=voice, starred=starred)), PAGE

    @skips(2)
    def more(self, search: Any, voice: Any, starred: Any, shown: Any, token: Any, request: gr.Request) -> Updates:
        """The list with more of it, and how many entries are shown."""
        owner = self._house.owner(token, request)
        wanted = parsed(Wanted, search=search, voice=voice, starred=starred, shown=shown)
        wanted = wanted.model_copy(update={"shown": wanted.count + PAGE})
        return self._listed(owner, wanted), wanted.count

    @skips(1)
    def refresh(self, search: Any, voice: Any, starred: Any, shown: Any, token: Any, request: gr.Request) -> Any:
        """The list once more, before its links are too old."""
        owner = self._house.owner(token, request)
        return self._listed(owner, parsed(Wanted, search=search, voice=voice, starred=starred, shown=shown))

    def star(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Notice, bell."""

        def starred(owner: str, _words: Words) -> str:
            sent = parsed(Star, event)
            self._history.star(sent.id, sent.starred, owner=owner)
            return ""

        return self._change(starred, token, request)

    def withdraw(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Notice, bell: one entry less. A script keeps its take."""

        def withdrawn(owner: str, words: Words) -> str:
            entry = parsed(Entry, event).id
            of_script = self._history.get(entry, owner=owner).script_id
            self._history.withdraw(entry, owner=owner)
            return words("history.left_to_script") if of_script else words("history.deleted")

        return self._change(withdrawn, token, request)

    def use_again(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Speak's text, voice, seed, three settings, their fold, and notice; the tab to show; this tab's notice."""
        words = self._house.words(request)
        try:
            owner = self._house.owner(token, request).key
            record = self._history.get(parsed(Entry, event).id, owner=owner)
            voices = self._house.studio.voices.list(owner=owner)
        except Exception as error:
            return *(gr.skip(),) * 9, notice(sentence_of(error, words), "bad")
        there = any(voice.id == record.voice_id for voice in voices)
        picked = views.picker_of(voices, record.voice_id, words) if there else gr.skip()
        settings = [record.settings.get(name, gr.skip()) for name in SETTINGS]
        said = notice(self._remarks(record, there, words), "good" if there else "bad")
        fold = gr.Accordion(open=True)  # a seed that is set is to be seen
        return record.text, picked, str(record.seed), *settings, fold, said, gr.Tabs(selected="speak"), ""

    def keep(self, wanted: Any, token: Any, request: gr.Request) -> Updates:
        """Notice, bell: the switch."""

        def switched(owner: str, words: Words) -> str:
            kept = self._history.change_settings(history=parsed(Keep, wanted=wanted).wanted, owner=owner).history
            return words("history.kept_on") if kept else words("history.kept_off")

        return self._change(switched, token, request)

    def keep_for(self, days: Any, token: Any, request: gr.Request) -> Updates:
        """Notice, bell: the days."""

        def changed(owner: str, words: Words) -> str:
            wanted = parsed(KeepFor, days=days).days
            if not wanted:
                raise InvalidInput(words("history.no_days"))
            kept = self._history.change_settings(retention_days=wanted, owner=owner).retention_days
            return words("history.days_set", days=kept)

        return self._change(changed, token, request)

    def ask_clear(self, token: Any, request: gr.Request) -> Updates:
        """Question about deleting the history, its sentence; notice where there is nothing to ask."""

        def question(owner: str, words: Words) -> str:
            found = self._house.studio.holdings(owner=owner)
            if not found.history:
                raise InvalidInput(words("history.nothing"))
            return words("history.clear_question", count=found.history, starred=found.starred)

        return self._ask(question, token, request)

    def clear(self, token: Any, request: gr.Request) -> Updates:
        """Notice, bell, question put away."""

        def cleared(owner: str, words: Words) -> str:
            return words("history.cleared", count=self._history.clear(owner=owner))

        return *self._change(cleared, token, request), gr.Column(visible=False)

    def ask_forget(self, token: Any, request: gr.Request) -> Updates:
        """Question about deleting everything, its sentence; notice."""

        def question(owner: str, words: Words) -> str:
            found = self._house.studio.holdings(owner=owner)
            return words(
                "history.forget_question",
                voices=found.voices,
                history=found.history,
                scripts=found.scripts,
                takes=found.takes,
                size=_megabytes(found.storage.total),
            )

        return self._ask(question, token, request)

    def forget(self, token: Any, request: gr.Request) -> Updates:
        """Notice, bell, question put away, and the list, which has the browser forget what it keeps of this page."""
        words = self._house.words(request)
        try:
            owner = self._house.owner(token, request).key
            views.forget_voices(self._house, owner)
            with self._house.takes.forgetting(owner):
                self._house.studio.forget(owner)
        except Exception as error:
            said = notice(sentence_of(error, words), "bad")
            return said, gr.skip(), gr.skip(), gr.skip()
        emptied = {"entries": [], "total": 0, "found": True, "kept": True, "forget": True}
        everywhere = ring("voices", "history", "scripts")
        return notice(words("history.forgotten")), everywhere, gr.Column(visible=False), emptied

    def _listed(self, owner: Owner, wanted: Wanted) -> dict[str, Any]:
        page = self._history.page(
            owner=owner.key,
            search=wanted.search,
            starred=wanted.starred,
            voice_id=wanted.voice or None,
            limit=wanted.count,
        )
        asked = bool(wanted.search.strip() or wanted.starred or wanted.voice)
        kept = self._history.settings(owner=owner.key).history
        return self._value(page, owner) | {"found": not asked, "kept": kept}

    def _value(self, page: HistoryPage, owner: Owner) -> dict[str, Any]:
        return {"entries": [self._entry(record, owner) for record in page.records], "total": page.total}

    def _entry(self, record: GenerationRecord, owner: Owner) -> dict[str, Any]:
        """An entry as the list shows it, with links that are good for minutes."""
        links = {kind: self._house.links.sign(owner, "take", f"{record.id}.{kind}") for kind in FORMATS}
        return {
            "id": record.id,
            "when": record.created.isoformat(),
            "text": record.text,
            "voice": record.voice_name,
            "seed": record.seed,
            "settings": {name: record.settings[name] for name in SETTINGS if name in record.settings},
            "seconds": record.duration,
            "factor": record.real_time_factor,
            "model": record.model,
            "ending": record.stop_reason,
            "starred": record.starred,
            "script": record.script_id is not None,
            "links": links,
        }

    def _remarks(self, record: GenerationRecord, there: bool, words: Words) -> str:
        if not there:
            return words("history.voice_gone", name=record.voice_name)
        current = self._house.engine.name
        if record.model and record.model != current:
            return words("history.other_model", model=record.model, current=current)
        return words("history.used_again")

    def _used(self, owner: Owner, words: Words) -> str:
        use = self._house.studio.storage_use(owner=owner.key)
        said = words("history.used", takes=_megabytes(use.generations), voices=_megabytes(use.voices))
        return f'<p class="rp-facts">{escape(said)}</p>'

    def _change(self, change: Callable[[str, Words], str], token: Any, request: gr.Request) -> Updates:
        words = self._house.words(request)
        try:
            said = change(self._house.owner(token, request).key, words)
        except Exception as error:
            return notice(sentence_of(error, words), "bad"), ring("history")
        return notice(said) if said else "", ring("history")

    def _ask(self, question: Callable[[str, Words], str], token: Any, request: gr.Request) -> Updates:
        words = self._house.words(request)
        try:
            asked = question(self._house.owner(token, request).key, words)
        except Exception as error:
            return gr.Column(visible=False), "", notice(sentence_of(error, words), "bad")
        return gr.Column(visible=True), f'<p class="rp-question" role="alert">{escape(asked)}</p>', ""


def _days(now: int, words: Words) -> list[tuple[str, int]]:
    """The days to choose from; others may have been set elsewhere."""
    return [(words("history.days", days=days), days) for days in sorted({*DAYS, now})]


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f}"
