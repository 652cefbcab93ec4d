"""Short English sentences for the teachers: templates over a few hundred words, and quotations from
`fortune`.

The hash of a sentence's letters decides whether it is held out for testing, so all runs hold out the same sentences,
whatever their seeds.
"""

import hashlib
import random
import re
from collections.abc import Container, Iterator
from functools import lru_cache
from pathlib import Path

from engine.text.english.pronunciation import Lexicon
from training.work import TrainingError

FORTUNES = Path("/usr/share/games/fortunes")
_FORTUNES = 0.4  # of the training sentences
_HELD_OUT = 40  # one sentence in this many
_NOT_PROSE = {"ascii-art", "art", "perl", "startrek", "drugs", "ethnic", "knghtbrd", "tao", "songs-poems"}


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split("|")]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Parse "a/b|c/d" into [(a, b), (c, d)]."""
    pairs = (item.split("/") for item in _list(text))
    return [(first, second) for first, second in pairs]


NAMES = _list(
    "Anna|Tom|Maria|Peter|Susan|David|Emma|Jack|Alice|Robert|Sarah|Michael|Julia|Henry|Laura|George|Helen|Simon|Kate|Daniel|Sophie|Martin|Olivia|Paul|Grace|Thomas|Lucy|Edward|Jane|Oscar|Nina|Walter|Rose|Frank|Amy|Victor"
)
PLACES = _list(
    "London|Paris|Boston|Chicago|Berlin|Rome|New York|Texas|Dublin|Tokyo|Madrid|Oxford|Vienna|Denver|Canada|Spain|Italy"
)
PEOPLE = _list(
    "the teacher|my brother|our neighbor|the old man|a young woman|the doctor|her friend|the captain|the "
    "children|his sister|the manager|every student|the new driver|someone|the farmer|a stranger|their "
    "father|your mother|the engineer|nobody|the baker|my grandmother|the young nurse|the tall "
    "policeman|our guide|the whole family|a tired soldier|the lawyer|two girls|the boys|a clever "
    "child|the singer|an old sailor|the queen|the cook|my uncle|her husband|his wife|the "
    "painter|everybody|the judge|a small dog|the gray cat|the postman|the visitors|our boss|the "
    "writer|that woman"
)
PRONOUNS = ["I", "you", "he", "she", "we", "they"]
# (past, plain form) of transitive verbs.
ACTS = _pairs(
    "bought/buy|found/find|forgot/forget|opened/open|carried/carry|wanted/want|painted/paint|"
    "dropped/drop|saw/see|moved/move|followed/follow|described/describe|noticed/notice|repaired/repair|"
    "lost/lose|remembered/remember|watched/watch|needed/need|returned/return|left/leave|sold/sell|"
    "broke/break|washed/wash|cleaned/clean|brought/bring|liked/like|hid/hide|drew/draw|chose/choose|"
    "used/use|borrowed/borrow|ordered/order|kept/keep|took/take|threw/throw|touched/touch|loved/love|"
    "counted/count|showed/show|measured/measure|fixed/fix|covered/cover|picked/pick|packed/pack|"
    "stole/steal|enjoyed/enjoy|missed/miss|checked/check|pushed/push"
)
THINGS = _list(
    "the blue bicycle|a small box|three green apples|the wooden table|an empty bottle|the morning paper|a"
    " heavy book|the last train|some fresh bread|the kitchen window|a warm coat|the broken lamp|two white"
    " horses|a cup of coffee|the long letter|a bright yellow flower|the front door|an old photograph|the "
    "red car|some cold water|a pair of shoes|the silver spoon|a glass of milk|the garden chair|an orange "
    "boat|the answer|a piece of cheese|the yellow umbrella|a square mirror|the big map|his leather "
    "bag|her purple dress|the church bell|a cheap watch|the thick rope|our suitcase|a round stone|the "
    "dirty dishes|that strange picture|the keys|an enormous fish|a brown jacket|the ladder|five eggs|the "
    "radio|a bunch of grapes|the oil painting|my favorite cup|a joke|the golden ring|the first page|a "
    "short story|the blanket|some paper|the television|a birthday cake|the engine|both tickets|a fine "
    "treasure|the menu"
)
WHERE = _list(
    "near the river|behind the station|in the garden|at the market|on the bridge|under the tree|by the "
    "church|across the street|at the hotel|in the city|on the beach|in the kitchen|at school|by the "
    "sea|in the forest|on the roof|next to the bank|outside the theater|between the houses|at the end of "
    "the road|in the village|beside the lake|on the third floor|around the corner|in the museum|at the "
    "airport|on the island|above the shop|below the castle|in the hall"
)
WHEN = _list(
    "before breakfast|after the meeting|last night|early in the morning|on Monday|this evening|in the "
    "winter|during the storm|for the first time|yesterday|last week|in July|at noon|after lunch|on "
    "Friday|two days ago|every summer|at six o'clock|in the afternoon|a year ago|on her birthday|just "
    "now|last Thursday|around midnight|before the war|in spring"
)
HOW = _list(
    "slowly|quickly|very carefully|without a word|with a smile|in silence|again|by mistake|for fun|with "
    "great care|quietly"
)
MOVES = _pairs(
    "walked/walk|ran/run|waited/wait|slept/sleep|sang/sing|laughed/laugh|stayed/stay|worked/work|"
    "danced/dance|sat/sit|arrived/arrive|played/play|stood/stand|cried/cry|talked/talk|rested/rest|"
    "fell/fall|swam/swim|lived/live"
)
QUALITIES = _list(
    "cold|warm|happy|tired|very old|too small|quite "
    "large|empty|wet|open|closed|ready|late|clean|broken|strange|quiet|much too "
    "loud|beautiful|hungry|angry|blue|easy|difficult|dangerous|free|expensive|wonderful|huge|safe|busy|true"
)
NOUNS = _list(
    "weather|water|house|room|soup|road|music|office|garden|river|door|film|story|town|sky|bridge|coffee|bus|question|window|ship|hat|dinner|voice|lesson|train|sea|box|moon|shirt|kitchen|mountain|picture|noise|job|idea|fire|book"
)
COUNTED = _list(
    "apples|days|books|miles|people|dollars|minutes|chairs|birds|years|letters|houses|pounds|children|pages|stars|cups|horses|steps|weeks|ships|trees|cars|bottles|meters|questions|hours|cats"
)
NUMBERS = _list(
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|twenty"
    " five|thirty|thirty one|forty|forty two|fifty|sixty|sixty six|seventy|eighty|ninety|a hundred|two "
    "hundred|three hundred and ten|a thousand|five thousand|a million|half a million"
)
ORDERS = _list(
    "Open {t}|Bring me {t}|Please give {n} {t}|Take {t} home|Look at {t}|Do not touch {t}|Put {t} on the "
    "table|Turn left {w}|Wait for me {w}|Come back {y}|Meet {n} {w}|Tell {n} the truth|Write your name "
    "here|Close {t}, please|Read the next page|Help {n} with the dishes|Show me {t}|Let us go {w}|Please "
    "speak {h}|Stay {w}|Call {n} before noon|Listen to the music|Never forget {t}|Count to {k}|Leave {t} "
    "{w}|Ask {n} about {t}|Be careful with {t}|Sit down, {n}|Keep {t}"
)
EVERYDAY = _list(
    "Good morning, {n}.|Hello, {n}, how are you?|Good evening, everybody.|Thank you very much.|How do you"
    " do?|What time is it?|I am sorry, {n}.|See you on Monday.|Nice to meet you, {n}.|Have a good "
    "day.|Where is the station?|How much is {t}?|My name is {n}.|I would like {t}, please.|Can you help "
    "me?|What is your name?|Good night, {n}.|I do not know.|That is a good idea.|Are you ready, {n}?|Of "
    "course, {n}.|No, thank you.|Yes, please.|Not yet.|Welcome to {c}.|I live in {c}.|We are from "
    "{c}.|Have you been to {c}?|The train to {c} leaves at {k}.|Happy birthday, {n}!|Well done, {n}!|What"
    " a beautiful {o}!|Wait a minute, please.|You are right.|It does not matter.|I think so too.|Come in "
    "and sit down.|How old is {n}?|It is {k} o'clock.|The answer is {k}.|I have {k} {d}.|She is {k} years"
    " old.|This is {n} speaking.|Who is there?|Is {n} at home?|Let me see {t}.|I will call you {y}.|Do "
    "you like the {o}?|It is going to rain.|Excuse me, is this seat free?|What do you think about {t}?|I "
    "am looking for {t}.|Are there {k} {d} {w}?|Mister {n} lives {w}.|Doctor {n} is not here.|This costs "
    "{k} dollars.|You can say that again.|The bus was late again.|I cannot hear you.|Please say it again,"
    " {n}.|We have no time.|It was not my fault.|Why not?|Oh, I see."
)
PATTERNS = [
    ("{p} {v} {t} {w}.", 9),
    ("{p} {v} {t} {y}.", 8),
    ("{p} {v} {t}.", 6),
    ("{n} {v} {t} {w}.", 6),
    ("{r} {v} {t} {y}.", 6),
    ("{p} {m} {w}.", 5),
    ("{n} {m} {h}.", 3),
    ("{y}, {p} {v} {t}.", 5),
    ("{w}, {n} {m} {h}.", 3),
    ("the {o} was {q}.", 5),
    ("the {o} is {q} and the {x} is {q}.", 3),
    ("is the {o} {q}?", 3),
    ("why is the {o} so {q}?", 2),
    ("did {p} {b} {t}?", 5),
    ("why did {n} {b} {t}?", 4),
    ("when did {r} {b} {t}?", 4),
    ("how did {p} {b} {t}?", 3),
    ("where did {n} {a}?", 2),
    ("will {n} {b} {t} {y}?", 2),
    ("can {r} {b} {t}?", 3),
    ("{n} and {n} {m} {w}.", 4),
    ("{p} saw {k} {d} {w}.", 5),
    ("there were {k} {d} {w}.", 5),
    ("{k} {d} are enough.", 3),
    ("there is {t} {w}.", 3),
    ("{r} could not {b} {t}.", 4),
    ("{p} wanted to {b} {t}.", 4),
    ("{n} will {b} {t} {y}.", 4),
    ("{r} must {b} {t}.", 3),
    ("if you {b} {t}, {n} will {a}.", 3),
    ("{n} {v} {t}, but {r} did not.", 3),
    ("when {n} {m}, {p} {m}.", 3),
    ("{p} said that the {o} was {q}.", 4),
    ("what a {q} {o}!", 1),
    ("{n} never {v} {t}.", 2),
    ("who {v} {t}?", 3),
    ("{p} went from {c} to {c}.", 3),
    ("{n} came back from {c} {y}.", 3),
    ("it was {q} in {c}.", 2),
    ("{e}.", 12),
    ("{s}", 12),
    ("{p} paid {k} dollars for {t}.", 3),
    ("the number is {i}, {i}, {i}, {i}.", 3),
    ("I think {n} {v} {t}.", 3),
]
_DIGITS = _list("zero|one|two|three|four|five|six|seven|eight|nine")
_SLOT = re.compile(r"\{(\w)\}")
_DIALOGUE = re.compile(r"(?<=[.!?])\s+|;|:| -- |\"|\(|\)")


def is_held_out(text: str) -> bool:
    """Return whether a sentence is held out for testing: about one in 40, by the hash of its letters."""
    letters = re.sub(r"[^a-z]", "", text.lower())
    return hashlib.sha256(letters.encode()).digest()[0:2] < (65536 // _HELD_OUT).to_bytes(2, "big")


def template_sentences(seed: int) -> Iterator[str]:
    """Yield sentences from the patterns endlessly, deterministic for a seed, with occasional repetitions."""
    rng = random.Random(f"templates {seed}")
    patterns, weights = zip(*PATTERNS, strict=True)
    while True:
        sentence = _fill(rng.choices(patterns, weights)[0], rng)
        yield sentence[0].upper() + sentence[1:]


def _fill(pattern: str, rng: random.Random) -> str:
    while _SLOT.search(pattern):
        pattern = _SLOT.sub(lambda slot: _word(slot[1], rng), pattern)
    return pattern


def _word(slot: str, rng: random.Random) -> str:
    """Draw the filling of a slot."""
    lists = {
        "p": PEOPLE, "n": NAMES, "c": PLACES, "t": THINGS, "w": WHERE, "y": WHEN, "h": HOW, "q": QUALITIES,
        "o": NOUNS, "x": NOUNS, "d": COUNTED, "k": NUMBERS, "r": PRONOUNS, "e": ORDERS, "s": EVERYDAY,
        "i": _DIGITS,
    }  # fmt: skip
    if slot in lists:
        return rng.choice(lists[slot])
    pairs, form = {"v": (ACTS, 0), "b": (ACTS, 1), "m": (MOVES, 0), "a": (MOVES, 1)}[slot]
    return rng.choice(pairs)[form]


@lru_cache(maxsize=2)  # reading takes a second
def fortune_sentences(known: Lexicon, folder: Path = FORTUNES) -> tuple[str, ...]:
    """Return plain sentences of 2 to 12 known words from the fortune files, sorted, without duplicates.

    Raises TrainingError when there are none.
    """
    found: set[str] = set()
    for file in sorted(folder.glob("*")):
        if file.suffix or file.name in _NOT_PROSE or not file.is_file():
            continue
        for quotation in file.read_text(encoding="utf-8", errors="ignore").split("\n%\n"):
            found.update(_sentences(quotation, known))
    if not found:
        raise TrainingError(f"No quotations in {folder}. Install them as root: apt-get install fortunes")
    return tuple(sorted(found))


def _sentences(quotation: str, known: Container[str]) -> Iterator[str]:
    prose = re.sub(r"\s+", " ", re.sub(r"\n\s*--.*", "", quotation, flags=re.S))
    for piece in _DIALOGUE.split(prose):
        sentence = piece.strip().strip("'").strip()
        if sentence and sentence[0].isupper() and is_simple(sentence, known):
            yield sentence if sentence[-1] in ".?!" else f"{sentence.rstrip(',')}."


def is_simple(sentence: str, known: Container[str]) -> bool:
    """Return whether a sentence has 2 to 12 words, all known, at most 72 characters, and only plain punctuation."""
    if re.search(r"\b(?:St|Dr|Mr|Mrs|Ms|etc|vs|Jr|Sr|Inc)\.", sentence):
        return False
    if re.search(r"[^A-Za-z' ,.?!]", sentence) or re.search(r"\b[A-Z]{2,}|\b[B-HJ-Z]\b|\w\.\w", sentence):
        return False
    words = re.findall(r"[a-z']+", sentence.lower())
    return 2 <= len(words) <= 12 and len(sentence) <= 72 and all(word in known for word in words)


def held_out_sentences(known: Lexicon, templates: int = 120, fortunes: int = 80) -> list[str]:
    """Return the test set: held-out template sentences and fortunes, up to the requested numbers."""
    chosen: dict[str, None] = {}
    for sentence in template_sentences(0):
        if is_held_out(sentence):
            chosen[sentence] = None
        if len(chosen) == templates:
            break
    quoted = [sentence for sentence in fortune_sentences(known) if is_held_out(sentence)]
    random.Random("held-out fortunes").shuffle(quoted)
    return [*chosen, *quoted[:fortunes]]


def training_sentences(seed: int, known: Lexicon) -> Iterator[str]:
    """Yield training sentences endlessly, none held out. Fortunes repeat once all have been used."""
    rng = random.Random(f"training {seed}")
    templates = (sentence for sentence in template_sentences(seed + 1) if not is_held_out(sentence))
    quoted = [sentence for sentence in fortune_sentences(known) if not is_held_out(sentence)]
    rng.shuffle(quoted)
    position = 0
    while True:
        if rng.random() < _FORTUNES:
            yield quoted[position % len(quoted)]
            position += 1
        else:
            yield next(templates)
