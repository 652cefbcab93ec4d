"""Build the lexicon of the bundled English model from Flite's, so that training and inference agree.

    python -m training.speech.lexicon --words /usr/share/dict/american-english \\
        --more /usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict

Letters and phones are aligned by expectation maximisation, with zero to two phones per letter. The letter-to-sound
table keeps a context only if its phones differ from those of the next shorter context.
"""

import argparse
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase

from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import CONTEXTS, FORMAT_VERSION, PHONES, VOWELS, Lexicon, letter_contexts
from engine.text.tokenizer import LEXICON_FILE
from training.speech.flite import Flite
from training.work import exit_with_message

LEXICON = BUNDLED / LEXICON_FILE
"""The lexicon that this makes, for all models with these phones."""

_ROUNDS = 6
_SAMPLE = 5  # every fifth word is enough to learn the alignment
_UNSEEN = math.log(1e-7)

Aligned = tuple[str, list[str]]
Scores = dict[tuple[str, str], float]

# Words that Flite pronounces unlike its lexicon, wrongly, or without a vowel; for words with two readings, the more
# common one.
_SPECIAL = {
    "a": "ax", "i": "ay", "miz": "m ih z", "o'clock": "ax k l aa k", "missus": "m ih s ax z",
    "does": "d ah z", "live": "l ih v", "use": "y uw z", "minute": "m ih n ax t", "ok": "ow k ey",
    "lead": "l iy d", "wound": "w uw n d", "prof": "p r aa f", "gen": "jh eh n", "est": "eh s t", "se": "s ey",
    "cleft": "k l eh f t", "deign": "d ey n", "deigned": "d ey n d", "deigns": "d ey n z", "firs": "f er z",
    "ghouls": "g uw l z", "joust": "jh aw s t", "loused": "l aw s t", "moue": "m uw", "nth": "eh n th",
    "pcs": "p iy s iy z", "phd": "p iy ey ch d iy", "phlegm": "f l eh m", "sirs": "s er z", "skein": "s k ey n",
    "skeins": "s k ey n z", "tvs": "t iy v iy z", "latte": "l aa t ey", "ipad": "ay p ae d", "ai": "ey ay",
    "github": "g ih t hh ah b", "linkedin": "l ih ng k t ih n", "blockchain": "b l aa k ch ey n",
    "chatgpt": "ch ae t jh iy p iy t iy", "btw": "b iy t iy d ah b ax l y uw", "omg": "ow eh m jh iy",
    "idk": "ay d iy k ey", "hm": "hh ah m", "hmm": "hh ah m", "mm": "ah m", "mhm": "ah m hh ah m", "shh": "sh ax",
    "covid": "k ow v ih d", "gif": "g ih f", "jpeg": "jh ey p eh g", "isbn": "ay eh s b iy eh n",
    "git": "g ih t", "plugin": "p l ah g ih n", "filename": "f ay l n ey m", "json": "jh ey s ax n",
    "heuristic": "hh y uh r ih s t ih k", "heuristics": "hh y uh r ih s t ih k s", "hz": "hh er t s", "de": "d iy",
    "edu": "eh d y uw", "ubuntu": "uw b uh n t uw", "todo": "t ax d uw", "ids": "ay d iy z", "urls": "y uw aa r eh l z",
    "psst": "p ih s t", "brr": "b er", "grr": "g er", "haha": "hh aa hh aa",
}  # fmt: skip
# Acronyms that are also written in small letters, and spelled.
_SPELLED_ACRONYMS = (
    "abc", "amd", "api", "atm", "cgi", "cpu", "css", "dvd", "faq", "gps", "gpu", "html", "http", "https", "sql", "ui",
    "url", "usb", "xml",
)  # fmt: skip
# Acronyms that are read as words; other entries in capitals are spelled letter by letter.
_SPOKEN_ACRONYMS = frozenset(
    [
        "ama",
        "ansi",
        "ascii",
        "awacs",
        "cobol",
        "fica",
        "fnma",
        "ikea",
        "mips",
        "nafta",
        "nasa",
        "nascar",
        "nasdaq",
        "nato",
        "nimby",
        "nvidia",
        "ok",
        "opec",
        "osha",
        "parc",
        "rom",
        "sars",
        "sids",
        "unesco",
        "unicef",
    ]
)


def align_letters(letters: str, phones: Sequence[str], scores: Scores) -> list[str] | None:
    """Return the likeliest phones of each letter, or None when there are too many `phones`."""
    rows: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
    for at, letter in enumerate(letters):
        row: dict[int, tuple[float, int]] = {}
        left = 2 * (len(letters) - at - 1)
        for used, (score, _) in rows[-1].items():
            for take in (0, 1, 2):
                end = used + take
                if end > len(phones) or len(phones) - end > left:
                    continue
                total = score + scores.get((letter, " ".join(phones[used:end])), _UNSEEN)
                if end not in row or total > row[end][0]:
                    row[end] = (total, used)
        rows.append(row)
    if len(phones) not in rows[-1]:
        return None
    shares, end = [], len(phones)
    for row in reversed(rows[1:]):
        start = row[end][1]
        shares.append(" ".join(phones[start:end]))
        end = start
    return shares[::-1]


def learn_alignment(words: Iterable[tuple[str, Sequence[str]]]) -> Scores:
    """Return the log probabilities of (letter, its phones), from hard expectation maximisation."""
    sample = list(words)
    scores: Scores = _first_guess(sample)
    for _ in range(_ROUNDS):
        counts: Counter[tuple[str, str]] = Counter()
        for letters, phones in sample:
            for letter, share in zip(letters, align_letters(letters, phones, scores) or (), strict=False):
                counts[letter, share] += 1
        scores = _log_probabilities(counts)
    return scores


def _first_guess(words: Iterable[tuple[str, Sequence[str]]]) -> Scores:
    """Return initial scores, from how often phones occur near the position of a letter."""
    counts: Counter[tuple[str, str]] = Counter()
    for letters, phones in words:
        for at, letter in enumerate(letters):
            near = at * len(phones) // len(letters)
            for phone in phones[max(0, near - 1) : near + 2]:
                counts[letter, phone] += 1
    singles = _log_probabilities(counts)
    silent = {(letter, ""): math.log(0.05) for letter, _ in singles}
    pairs = {
        (letter, f"{one} {two}"): score + singles.get((letter, two), _UNSEEN) + math.log(0.05)
        for (letter, one), score in singles.items()
        for two in PHONES
    }
    return {**pairs, **silent, **singles}


def _log_probabilities(counts: Counter[tuple[str, str]]) -> Scores:
    totals: Counter[str] = Counter()
    for (letter, _), count in counts.items():
        totals[letter] += count
    return {key: math.log(count / totals[key[0]]) for key, count in counts.items()}


def learn_letters(words: Iterable[Aligned]) -> dict[str, str]:
    """Return the letter-to-sound table: letters in context -> phones of the middle letter."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for letters, shares in words:
        for at, share in enumerate(shares):
            for key in letter_contexts(letters, at):
                counts[key][share] += 1
    table: dict[str, str] = {}
    for length in range(1, len(CONTEXTS) + 1):
        for key, found in counts.items():
            if len(key) == length and (length == 1 or sum(found.values()) > 1):
                best = found.most_common(1)[0][0]
                if length == 1 or best != _backed_off(table, key):
                    table[key] = best
    return table


def _backed_off(table: dict[str, str], key: str) -> str:
    """Return the table's phones of a key's middle letter with less context."""
    left, right = next(sides for sides in CONTEXTS if sum(sides) + 1 == len(key))
    for fewer_left, fewer_right in CONTEXTS[CONTEXTS.index((left, right)) + 1 :]:
        shorter = key[left - fewer_left : left + fewer_right + 1]
        if shorter in table:
            return table[shorter]
    return ""


def read_words(path: Path) -> tuple[set[str], set[str]]:
    """Read the words and the acronyms of a list, in lower case. One entry per line, further columns are ignored.

    Acronyms are written in capitals only and spelled letter by letter.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    written = {line.split()[0].split("(")[0] for line in lines if line.strip()}
    plain = {word for word in written if word.isascii() and word.replace("'", "").isalpha()}
    capital = {word.lower() for word in plain if word.isupper() and len(word) > 1}
    words = {word.lower() for word in plain if not word.isupper() or len(word) == 1}
    acronyms = capital - words - _SPOKEN_ACRONYMS
    return (words | capital) - acronyms, acronyms


def pronounce(flite: Flite, word: str) -> list[str]:
    """Return Flite's phones of a word. Words with an apostrophe need its text analysis."""
    if "'" in word:
        return [phone for phone, _ in flite.say(word, "kal16").segments if phone != "pau"]
    return flite.look_up(word)


def build(word_list: set[str], more: set[str]) -> dict[str, object]:
    """Return the lexicon's content.

    Args:
        word_list: words that are always stored.
        more: further words to learn the letter-to-sound table from; stored only if the rules get them wrong.
    """
    flite = Flite()
    spoken = {word: pronounce(flite, word) for word in sorted(word_list | more)}
    plain = [(word, phones) for word, phones in spoken.items() if word.isalpha() and len(word) > 1 and phones]
    scores = learn_alignment(plain[::_SAMPLE])
    aligned = [(word, shares) for word, phones in plain if (shares := align_letters(word, phones, scores))]
    letters = learn_letters(aligned)
    words = {word: " ".join(spoken[word]) for word in sorted(word_list) if _has_vowel(spoken[word])}
    words |= {letter.upper(): " ".join(flite.look_up(letter)) for letter in ascii_lowercase} | {"A": "ey"}
    rules = Lexicon(words, letters)
    missed = {
        word: " ".join(phones) for word, phones in plain if _has_vowel(phones) and rules.word(word).split() != phones
    }
    return {
        "version": FORMAT_VERSION,
        "words": _pruned(words | missed | _SPECIAL | _spelled(words), letters),
        "letters": letters,
    }


def _spelled(words: Mapping[str, str]) -> dict[str, str]:
    """Return the acronyms that are spelled, given the names of the letters."""
    return {acronym: " ".join(words[letter] for letter in acronym.upper()) for acronym in _SPELLED_ACRONYMS}


def _has_vowel(phones: Sequence[str]) -> bool:
    """A word without a vowel is an acronym in lower case, or a mistake of Flite's."""
    return not VOWELS.isdisjoint(phones)


def _pruned(words: dict[str, str], letters: dict[str, str]) -> dict[str, str]:
    """Remove possessives that the suffix rules pronounce the same way."""
    rules = Lexicon({word: phones for word, phones in words.items() if not word.endswith("'s")}, letters)
    return {word: phones for word, phones in words.items() if not word.endswith("'s") or rules.word(word) != phones}


def save(content: dict[str, object], path: Path) -> None:
    """Write a lexicon file. The same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=Path, required=True, help="list of common words, one per line")
    parser.add_argument("--more", type=Path, required=True, help="longer list, for names and letter-to-sound")
    parser.add_argument("--out", type=Path, default=LEXICON)
    options = parser.parse_args()
    with exit_with_message():
        words, acronyms = read_words(options.words)
        more = read_words(options.more)[0] - acronyms
        save(build(words & more, more), options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
