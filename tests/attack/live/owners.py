"""Two owners on one server: one attacks all data of the other."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.attack.attack import Attack, Broken, randoms
from tests.attack.live.guest import Guest
from tests.attack.live.server import Server, shared_server

CALLS = 40  # of one case
SECRET = "Wilhelmina of the other owner"
KEYS = ("id", "script", "card", "take", "voice", "token", "path")
ACTIONS = (
    "open", "poll", "takes", "listen", "save", "rename", "discard", "speak", "stop", "redo", "cast", "edit",
    "speaker", "voice", "pause", "lock", "move", "insert", "split", "merge", "remove", "choose", "list",
)  # fmt: skip
# Excluded: events that delete all data of the sender, and expensive ones.
EXCLUDED = ("rp-forget-sure", "rp-speak")


class Victim:
    """An owner with a voice, a script and a take."""

    def __init__(self, server: Server) -> None:
        self.guest = Guest(server)
        self.guest.arrive()
        self.voice = self.guest.keep_voice(SECRET)
        answer = self.guest.event("click", "rp-script-make", [f"{SECRET} said so.", self.voice, self.guest.token])
        self.script = str(answer[2]["show"])
        self.take = self.guest.speak("Good morning.", self.guest.sample())["take"]
        entry = next(entry for entry in self._history()["entries"] if entry["id"] == self.take)
        self.sounds = [self.guest.http.get(link).content for link in entry["links"].values()]
        self.card = str(self._desk("open")["state"]["cards"][0]["id"])
        self.before = self.state()

    @property
    def ids(self) -> list[str]:
        return [self.voice, self.script, self.card, str(self.take)]

    def state(self) -> Any:
        """All data of the victim, as they see it."""
        voices = [{key: voice[key] for key in ("id", "name", "tags")} for voice in self.guest.voices()]
        scripts = self._desk("list")["scripts"]
        cards = self._desk("open")["state"]["cards"]
        takes = [entry["id"] for entry in self._history()["entries"]]
        return voices, scripts, cards, takes

    def _desk(self, do: str) -> dict[str, Any]:
        sent = {"number": 1, "do": do, "script": self.script, "version": "", "values": {}}
        return dict(self.guest.event("act", "rp-script-editor", [self.guest.token], sent=sent)[0])

    def _history(self) -> dict[str, Any]:
        return dict(self.guest.event("refresh", "rp-history", ["", None, False, 20, self.guest.token])[0])


@cache
def victim() -> Victim:
    return Victim(shared_server("--owners", "browser"))


@cache
def intruder() -> Guest:
    guest = Guest(shared_server("--owners", "browser"))
    guest.arrive()
    return guest


def _cases(seed: int, count: int) -> Iterator[str]:
    for index, _ in enumerate(randoms(seed, count)):
        yield f"{seed}:{index}"


def _intrude(seeded: str) -> int:
    chance, theirs, guest = random.Random(seeded), victim(), intruder()
    functions = [function for function in guest.config["dependencies"] if not _excluded(function, guest.config)]
    wrong: list[str] = []
    for _ in range(CALLS):
        function = chance.choice(functions)
        data, sent = _values(chance, function, theirs, guest), _sent(chance, theirs)
        answer, name = guest.call(function["id"], data, sent), _event_name(function, guest.config)
        if SECRET in answer.text:
            wrong.append(f"{name} returned another owner's data: {answer.text[:500]}")
        if answer.status_code >= 500:
            wrong.append(f"{name} gave {answer.status_code} for {data!r} and {sent!r}.")
        wrong += _leaks_of_links(guest, theirs, answer.text)
    if theirs.state() != theirs.before:
        wrong.append("An intruder's calls changed another owner's data.")
    if wrong:
        raise Broken("\n".join(wrong))
    return CALLS


def _excluded(function: dict[str, Any], config: dict[str, Any]) -> bool:
    return function.get("queue") is True or any(name in EXCLUDED for name, _ in _targets(function, config))


def _targets(function: dict[str, Any], config: dict[str, Any]) -> list[tuple[Any, str]]:
    ids = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
    return [(ids.get(target[0]), target[1]) for target in function["targets"]]


def _event_name(function: dict[str, Any], config: dict[str, Any]) -> str:
    return "Event " + ", ".join(f"{kind} of {name}" for name, kind in _targets(function, config))


def _values(chance: random.Random, function: dict[str, Any], theirs: Victim, guest: Guest) -> list[Any]:
    """Values with the victim's ids in any place, with the intruder's key, a damaged one, or none."""
    choices = [*theirs.ids, "", None, 0, -1, 1e308, True, [], {}, {"path": "/etc/passwd"}, theirs.ids]
    values = [chance.choice(choices) for _ in function["inputs"]]
    if values and chance.random() < 0.8:
        values[-1] = guest.token
    elif values:
        values[-1] = chance.choice((None, "", str(theirs.guest.token)[:-1], {"key": theirs.guest.token}))
    return values


def _sent(chance: random.Random, theirs: Victim) -> dict[str, Any]:
    chosen = {key: chance.choice(theirs.ids) for key in KEYS if chance.random() < 0.7}
    values = {key: chance.choice([*theirs.ids, "mine now", 0, True, None]) for key in (*KEYS, "name", "text", "format")}
    more = {
        "do": chance.choice(ACTIONS),
        "number": 1,
        "version": "",
        "values": values,
        "name": "mine now",
        "ticket": "t",
    }
    return {
        **chosen,
        **more,
        "replacement": chance.choice(theirs.ids),
        "files": [{"path": "/etc/passwd", "name": "a.voice"}],
    }


def _leaks_of_links(guest: Guest, theirs: Victim, text: str) -> Iterator[str]:
    """Follow the links in an answer to the intruder; yields a sentence for each that returns the victim's data."""
    for part in text.split('"')[1::2]:
        if "/reprise/files/" in part:
            content = guest.http.get(part).content
            if SECRET.encode() in content or content in theirs.sounds:
                yield f"A link returned another owner's data to an intruder: {part}"


INTRUDER = Attack(
    "another owner", "every id of one owner in every event of another", _cases, _intrude, 50, 120.0, None, True
)
