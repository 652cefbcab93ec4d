"""Text front end of the small English model: text -> phones, by lexicon, suffix rules and letter-to-sound table.

The phones are the US English set of Flite (Black and Lenzo, 2001), whose speech the model was trained on. The
letter-to-sound table aligns letters with phones as in Black, Lenzo and Pagel, "Issues in building general letter to
sound rules" (1998), but uses a context table that backs off from three letters on either side instead of trees.
`training/speech/lexicon.py` builds the file.
"""

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeGuard
from weakref import WeakValueDictionary

from engine.errors import InvalidConfig, InvalidInput, first_line
from engine.files.bounded import parse_json, read_regular
from engine.text.cuts import written_size
from engine.text.english import loanwords, normalization
from engine.text.tags import SPEAKER_TAG, STYLE_TAG

FORMAT_VERSION = 1
PHONES = (
    "aa", "ae", "ah", "ao", "aw", "ax", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g", "hh",
    "ih", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw",
    "v", "w", "y", "z", "zh",
)  # fmt: skip
WORD_BREAK = "_"
MARKS = tuple(normalization.PUNCTUATION)
TOKENS = (*PHONES, WORD_BREAK, *MARKS)

_PHONES = frozenset(PHONES)
VOWELS = frozenset(phone for phone in PHONES if phone[0] in "aeiou")
_SIBILANTS = frozenset({"s", "z", "sh", "zh", "ch", "jh"})
_VOICELESS = frozenset({"f", "k", "p", "s", "sh", "t", "th", "ch"})
_SPEAKER = re.compile(f"({SPEAKER_TAG.pattern})")
# A word given by its phones, "{{t_ax_m_ey_t_ow}}", perhaps with a possessive 's.
_PHONE = "|".join(PHONES)
_PHONE_MARK = re.compile(rf"\{{\{{((?:{_PHONE})(?:_(?:{_PHONE}))*)\}}\}}(['’]s)?")
# ARPAbet as in the CMU dictionary, where an unstressed "AH" is the schwa. All other phones are named as in `PHONES`.
_ARPABET = {"ah0": "ax", "axr": "er", "ix": "ih"}
_STRESS = re.compile(r"(?<=[a-z])[0-2]$")
# Left and right context in letters, from the longest key (7) to the letter alone (1). Each key length belongs to one
# context.
CONTEXTS = ((3, 3), (2, 3), (2, 2), (1, 2), (1, 1), (0, 1), (0, 0))


# Words that the lexicon has as nouns, adjectives or in the past, and what comes before the infinitive. Nouns that often
# follow "to" are left out: "mild to moderate", "prone to conflict".
_VERBS = {
    "advocate": "ae d v ax k ey t", "alternate": "ao l t er n ey t", "associate": "ax s ow s iy ey t",
    "close": "k l ow z", "conduct": "k ax n d ah k t", "contest": "k ax n t eh s t", "contract": "k ax n t r ae k t",
    "convert": "k ax n v er t", "convict": "k ax n v ih k t", "coordinate": "k ow ao r d ax n ey t",
    "deliberate": "d ih l ih b er ey t", "desert": "d ih z er t", "duplicate": "d uw p l ax k ey t",
    "elaborate": "ih l ae b er ey t", "estimate": "eh s t ax m ey t", "excuse": "ih k s k y uw z",
    "extract": "ih k s t r ae k t", "graduate": "g r ae jh ax w ey t", "insult": "ih n s ah l t",
    "object": "ax b jh eh k t", "perfect": "p er f eh k t", "permit": "p er m ih t", "present": "p r ax z eh n t",
    "project": "p r ax jh eh k t", "read": "r iy d", "rebel": "r ih b eh l", "record": "r ax k ao r d",
    "refuse": "r ih f y uw z", "separate": "s eh p er ey t", "subject": "s ax b jh eh k t",
    "suspect": "s ax s p eh k t",
}  # fmt: skip
_COMMANDS = frozenset({"close", "excuse", "read"})  # also at the beginning of a sentence
_BEFORE_VERBS = frozenset(
    "to will would can could shall should must may might please let's don't doesn't didn't won't wouldn't can't"
    " cannot couldn't shouldn't i'll you'll he'll she'll it'll we'll they'll".split()
)
_SUBJECTS = frozenset("i you we they who".split())  # before "read", the tense is unknown
# Words that the lexicon has as verbs, and what comes before nouns and adjectives.
_NOUNS = {"use": "y uw s", "live": "l ay v"}
_BEFORE_NOUNS = frozenset("a an any his in its my no of our the their this your".split())
_MAX_PACKED_BYTES, _MAX_BYTES = 16 << 20, 64 << 20

_loaded: "WeakValueDictionary[bytes, Lexicon]" = WeakValueDictionary()  # by the hash of the file


def _is_table(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and set(map(type, value.values())) <= {str}


def parse_arpabet(text: str) -> list[str]:
    """Parse a word in ARPAbet, such as "T AH0 M EY1 T OW2", into phones. Stress is dropped, as the model has none.

    Raises InvalidInput for an unknown phone.
    """
    phones = []
    for name in text.lower().split():
        plain = _STRESS.sub("", name)
        phone = _ARPABET.get(name) or _ARPABET.get(plain, plain)
        if phone not in _PHONES:
            raise InvalidInput("words.bad_phone", phone=name[:20].upper(), phones=" ".join(PHONES).upper())
        phones.append(phone)
    return phones


def phone_mark(phones: Sequence[str]) -> str:
    """Return the mark that stands for a word with these `PHONES` in a text for `Lexicon`."""
    return f"{{{{{'_'.join(phones)}}}}}"


def spoken_size(text: str) -> int:
    """Return the size of a text as it is read, in UTF-8 bytes: a number is longer read than written.

    A single word has its written size, so that no number is cut. A phone counts as a letter.
    """
    text = _PHONE_MARK.sub(lambda mark: "x" * (mark[1].count("_") + 1) + (mark[2] or ""), text)
    return written_size(normalization.written_out_once(text) if len(text.split(maxsplit=1)) > 1 else text)


def letter_contexts(word: str, at: int) -> list[str]:
    """Return the keys of the letter-to-sound table for `word[at]`, most specific first; `#` pads the word."""
    padded = f"###{word}###"
    here = at + 3
    return [padded[here - left : here + right + 1] for left, right in CONTEXTS]


def only_phones(tokens: str) -> list[str]:
    """Return the phones among tokens of `Lexicon.phones`, without word breaks, marks and speaker tags."""
    return [token for token in tokens.split() if token in _PHONES]


class Lexicon:
    """Pronunciations of English words, with rules for unknown words."""

    def __init__(self, words: Mapping[str, str], letters: Mapping[str, str]) -> None:
        """Args:
        words: word in lower case (or one upper-case letter: its name) -> phones separated by spaces.
        letters: letters in context (see `letter_contexts`) -> the phones of the middle one, perhaps none.
        """
        self._words = words
        self._letters = letters

    @classmethod
    def load(cls, path: str | Path) -> "Lexicon":
        """Read a lexicon file. Raises InvalidConfig if it is damaged or of another version.

        A file with the contents of a lexicon that exists is not read again: a second model may bring the same one.
        """
        name = Path(path).name
        try:
            packed = read_regular(path, _MAX_PACKED_BYTES)
            contents = hashlib.sha256(packed).digest()
            if (known := _loaded.get(contents)) is not None:
                return known
            with gzip.open(io.BytesIO(packed)) as file:
                data = file.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise ValueError("it is too large")
            content = parse_json(data)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InvalidConfig(f"The lexicon {name} cannot be read: {first_line(error)}") from error
        if not isinstance(content, dict) or content.get("version") != FORMAT_VERSION:
            raise InvalidConfig(f"The lexicon {name} is not of format version {FORMAT_VERSION}.")
        words, letters = content.get("words"), content.get("letters")
        if not _is_table(words) or not _is_table(letters):
            raise InvalidConfig(f"The lexicon {name} has no tables of words and letters: download it again.")
        return _loaded.setdefault(contents, cls(words, letters))

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def phones(self, text: str) -> str:
        """Convert text to tokens separated by spaces.

        Args:
            text: English. `[...]` style tags are dropped, `<|speaker:i|>` is kept as a token, and a `phone_mark` is a
            word of these phones.

        Returns:
            Tokens of `TOKENS` and speaker tags. `_` separates words and `, . ? !` mark pauses; every speaker's turn
            ends with one of `. ? !`. Empty if there is nothing to say. Words of other scripts are left out; see
            `unpronounceable`.
        """
        out: list[str] = []
        for piece in _SPEAKER.split(STYLE_TAG.sub(" ", text)):
            if _SPEAKER.fullmatch(piece):
                out.append(piece)
            elif piece:
                out += self._turn(self._spoken(piece))
        return " ".join(out)

    def count_phones(self, text: str) -> int:
        """Return the number of phones in `text`, without word breaks, marks and speaker tags."""
        return len(self.phone_list(text))

    def phone_list(self, text: str) -> list[str]:
        """Return the phones of `text`, without word breaks, marks and speaker tags."""
        return only_phones(self.phones(text))

    def words(self, text: str) -> list[str]:
        """Return the words and marks that `phones` pronounces, in order, without speaker tags."""
        return self._spoken(_SPEAKER.sub(" . ", STYLE_TAG.sub(" ", text)))

    def _spoken(self, text: str) -> list[str]:
        """Return words and marks like `normalization.spoken`. A word given by its phones is returned as `{phones}`."""
        read = loanwords.with_readings(text, self.word, lambda phones: phone_mark(phones.split()))
        parts = _PHONE_MARK.split(read)  # text, phones, suffix, text, …
        words = normalization.spoken(parts[0], self._words)
        for phones, suffix, following in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            known = phones.replace("_", " ")
            words.append(f"{{{_inflect(known, suffix) if suffix else known}}}")
            words += normalization.spoken(f"a {following}", self._words)[1:]  # "a" keeps a mark at the beginning
        return words

    def unpronounceable(self, text: str) -> list[str]:
        """Return the words of `text` that `phones` leaves out; see `normalization.unpronounceable`."""
        return normalization.unpronounceable(_PHONE_MARK.sub(" ", _SPEAKER.sub(" ", STYLE_TAG.sub(" ", text))))

    def word(self, word: str) -> str:
        """Return the phones of one word (lower case, or one upper-case letter to spell), separated by spaces.

        A word in braces is given by its phones.
        """
        if word.startswith("{"):
            return word[1:-1]
        word = word if word in self._words else word.strip("'")
        known = self._words.get(word)
        return known if known is not None else self._derived(word) or self._sounded_out(word)

    def _sounded_out(self, word: str) -> str:
        """Apply the letter-to-sound table. If the result has no vowel (`pdf`), spell the word."""
        phones = self.by_letters(word)
        if not VOWELS.isdisjoint(phones.split()):
            return phones
        return " ".join(self._words.get(letter, "") for letter in word.upper() if letter != "'").strip() or phones

    def by_letters(self, word: str) -> str:
        """Return the phones of a word from the letter-to-sound table alone."""
        letters = word.replace("'", "").lower()
        found = (self._letter(letter_contexts(letters, at)) for at in range(len(letters)))
        return _without_doubles(" ".join(phones for phones in found if phones))

    def _letter(self, contexts: list[str]) -> str:
        return next((self._letters[key] for key in contexts if key in self._letters), "")

    def _turn(self, spoken: list[str]) -> list[str]:
        """Convert one speaker's words and marks to tokens, with a final mark."""
        if not spoken:
            return []
        last = spoken[-1]
        ended = [*spoken[:-1], "."] if last == "," else spoken if last in MARKS else [*spoken, "."]
        out: list[str] = []
        for at, word in enumerate(ended):
            if word in MARKS:
                out.append(word)
                continue
            if at and ended[at - 1] not in MARKS:
                out.append(WORD_BREAK)
            out += self._in_context(ended[at - 1] if at else ".", word, ended[at + 1]).split()
        return out

    def _in_context(self, previous: str, word: str, following: str) -> str:
        """Return the phones of a word between two words or marks. `the` differs before a vowel, as in Flite, and a few
        words are pronounced otherwise where they are verbs or nouns."""
        if word == "the" and following not in MARKS:
            return "dh iy" if self.word(following).partition(" ")[0] in VOWELS else "dh ax"
        is_command = word in _COMMANDS and previous in MARKS and following != "to"  # "Close to the river"
        is_present = previous in _SUBJECTS and word != "read"
        if word in _VERBS and (previous in _BEFORE_VERBS or is_present or is_command):
            return _VERBS[word]
        if word in _NOUNS and previous in _BEFORE_NOUNS:
            return _NOUNS[word]
        return self.word(word)

    def _derived(self, word: str) -> str | None:
        """Return the phones of a word if it is an inflected form of a known one, else None."""
        for suffix, stems in _SUFFIXES:
            base = word.removesuffix(suffix)
            if base != word and len(base) > (1 if suffix.isalpha() else 0):
                for stem in stems(base):
                    if stem in self._words:
                        return _inflect(self._words[stem], suffix)
        return None


def _undoubled(base: str) -> list[str]:
    """Return possible stems before -ed and -ing: walk, bak(e), stop(p)."""
    doubled = len(base) > 2 and base[-1] == base[-2]
    return [base, f"{base}e", *([base[:-1]] if doubled else [])]


_SUFFIXES = (
    ("'s", lambda base: [base]),
    ("s'", lambda base: [f"{base}s", base]),
    ("'", lambda base: [base]),
    ("ies", lambda base: [f"{base}y"]),
    ("es", lambda base: [base, f"{base}e"]),
    ("s", lambda base: [base]),
    ("ied", lambda base: [f"{base}y"]),
    ("ed", _undoubled),
    ("ing", _undoubled),
    ("ly", lambda base: [base]),
)


def _inflect(stem: str, suffix: str) -> str:
    last = stem.split()[-1]
    if suffix == "ing":
        return f"{stem} ih ng"
    if suffix == "ly":
        return f"{stem} l iy" if last != "l" else f"{stem} iy"
    if suffix in ("ed", "ied"):
        return f"{stem} {'ax d' if last in ('t', 'd') else 't' if last in _VOICELESS else 'd'}"
    if suffix == "'":
        return stem
    return f"{stem} {'ax z' if last in _SIBILANTS else 's' if last in _VOICELESS else 'z'}"


def _without_doubles(phones: str) -> str:
    """Remove repeated phones, which doubled letters may produce; English words have none."""
    out: list[str] = []
    for phone in phones.split():
        if not out or out[-1] != phone:
            out.append(phone)
    return " ".join(out)
