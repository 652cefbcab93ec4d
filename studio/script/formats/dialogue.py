"""Speakers of lines `Name: …`, `Name (aside): …`, `[Name] …` and `名前「…」`, distinguished from `Note: …`, times,
addresses, `He said: …` and style tags.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from engine.text.tags import style_tag
from storage.scripts.limits import MAX_SPEAKER

# One to four words besides particles, as in "1st Man of the Guard"; capitalised where the writing system has capitals.
_WORD = r"[\p{L}\p{M}\p{N}.'’&/\-]{0,39}+"
_PARTICLES = r"(?:(?:of|the|and|de|del|la|las|los|y|du|des|et|von|van|der|den|und|di|da|&)\ ){0,3}"
_NAME = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)\ )?+[\p{{Lu}}\p{{Lt}}\p{{Lo}}]{_WORD}"
    rf"(?:\ {_PARTICLES}[\p{{L}}\p{{N}}]{_WORD}){{0,3}}+"
)
_TIME = r"[\[(]\d{1,4}[/.:\-]\d[\d/.,:\-\ ]{0,24}(?:[AaPp][Mm])?[\])]"  # [10:32] of a chat
_DIRECTION = r"\([^()\n]{1,80}\)|\[[^\[\]\n]{1,80}\]|（[^（）\n]{1,80}）"  # such as (aside)
_LINE = regex.compile(
    rf"(?:{_TIME}\s*)?(?:(?P<name>{_NAME})\ ?(?:{_TIME}|(?P<direction>{_DIRECTION}))?\ ?[:：](?!//|\d)"
    rf"|(?:\[(?P<tag>{_NAME})\]|［(?P<tag>{_NAME})］|【(?P<tag>{_NAME})】)[:：]?(?!\())"
    r"\s*(?P<text>.*)",
    regex.DOTALL,
)
_EXTENSION = regex.compile(  # of a name: (V.O.), (CONT'D), (30)
    r"(?i)(?:(?:cont['’]?d|cont|continued|more|off|v\.?\ ?o|o\.?\ ?[sc])\.?(?:[\ ,/]+|\Z))++|\d++"
)
_MARK = regex.compile(r"(?i)\s*+(?:chapter|speed|pause)\s*+:")
# Of chapters and speeds, which belong to the speech after the name.
_MARKS = regex.compile(r"\A(?:\[ *(?:chapter|speed) *:(?:[^\[\]\\\n]|\\.)*+\]\s*)++", regex.IGNORECASE)
# A name before a speech in Japanese brackets, which particles ("母は「…」") and kinds of works ("小説「…」") are not.
_LETTER = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Latin}\p{Nd}ー・]"
_QUOTED = regex.compile(
    rf"(?!{_LETTER}*?[\p{{Han}}\p{{Katakana}}ー](?:[はがを]|[もにでとのへや][「『]))(?!(?:[それあこど]れ|[そこあど]こ)\p{{Hiragana}})"
    r"(?!第|(?:アニメ|ドラマ|映画|歌|曲|作品|雑誌|詩|小説|題名|タイトル|番組|本|漫画|論文)[「『])"
    rf"(?P<name>(?=[^「『]*\p{{L}}){_LETTER}{{1,12}})\ ?(?P<direction>{_DIRECTION})?\ ?(?P<text>[「『].*)",
    regex.DOTALL,
)
# What follows the speech, by its closing bracket.
_AFTER_SPEECH = {closing: regex.compile(rf"{closing}(?![。．！？!?…]*+(?:\Z|\s*[「『]))") for closing in ("」", "』")}
# Words that tell of a speech, after which a colon names no speaker: the sentence is part of the text. In an interview
# "问：…" and "答：…" are speakers, and so are names that end with 道.
_SAYS = regex.compile(
    r"(?:\b(?:said|says|asked|answered|replied|cried|shouted|whispered|sagte?|fragte?|rief|antwortete|meinte|dit|demanda"
    r"|répondit|dijo|dice|preguntó|respondió|disse|chiese|rispose|perguntou|respondeu|сказала?|спросила?|ответила?"
    r"|powiedziała?|zapytała?|dedi|diye sordu)|.[说說问問答喊叫曰]):|道:[“「『\"]"
)
# Directions in scripts without capitals, in which a tag for style looks like a name: "[笑] …".
_STYLE = regex.compile(
    r"笑(?![\p{Han}--[着声聲了得出说說]])|哭|泣|叹|嘆|怒|咳|喘|(?:低|小|大|轻|輕|悄)[声聲]|ささや|囁|ため息|沈黙|웃|\b울|한숨|속삭|기침|ضحك|همس|تنهد|צוחק|צחוק|לוחש|אנחה"
    r"|हँस|हंस|फुसफुस|หัวเราะ|กระซิบ|ถอนหายใจ",
    regex.V1,
)
# Labels of e-mails, recipes, forms and remarks. Those in `_ADDRESSES` and `_SPEAKING` are also names.
_LABELS = frozenset(
    label
    for labels in (
        "from|sent|cc|bcc|date|subject|reply-to|attachments|ingredients|directions|instructions|method|preparation|steps",
        "servings|serves|yield|makes|time|total time|prep time|preparation time|cook time|cooking time|note|notes",
        "tip|tips|warning|caution|important|name|address|phone|email|e-mail|website|location|attendees|agenda|title|author",
        "von|gesendet|datum|betreff|zutaten|zubereitung|portionen|zubereitungszeit|hinweis|hinweise|achtung|tipp|tipps",
        "envoyé|objet|ingrédients|préparation|temps de préparation|cuisson|remarque|attention|conseil",
        "enviado|fecha|asunto|ingredientes|preparación|elaboración|porciones|raciones|nota|notas|consejo|atención",
        "差出人|宛先|件名|日時|送信日時|材料|作り方|手順|注意|备注|注|发件人|收件人|抄送|主题|日期|配料|食材|做法|步骤|提示",
    )
    for label in labels.split("|")
)
_ADDRESSES = frozenset("to an de à para".split())
_SPEAKING = frozenset(("author", "time"))  # however often one occurs, it is a label only beside another


@dataclass(frozen=True)
class SpeakerLines:
    """Consecutive lines of one speaker; None where no speaker is named."""

    speaker: str | None
    lines: list[str]


def find_speakers(lines: Iterable[str], *, throughout: bool = False) -> frozenset[str]:
    """Find the names at the beginning of lines, if the text is a dialogue.

    A single such line is a remark, such as `Note: …`. Names count if they occur at least twice, or if at least half of
    all lines belong to speakers and text follows the name. A speaker's lines end with the paragraph, at an empty line.
    Labels such as `From: …` and `Ingredients: …` are no names; in a text with two of them, another name occurs twice.

    throughout: names count only in the second case, as in a book, where twice is not often.
    """
    count, theirs, labelled = 0, 0, 0  # lines
    names, saying = Counter[str](), Counter[str]()
    opened: str | None = None
    for line, following in pairwise([*map(str.strip, lines), ""]):
        found = _match(_MARKS.sub("", line))
        opened = found[0] if found else opened if line else None
        count += bool(line)
        theirs += opened is not None
        labelled += opened is not None and opened.casefold() in _LABELS
        if found:
            name, text = found
            names[name] += 1
            saying[name] += bool(text or following)
    labels = {name for name in names if name.casefold() in _LABELS}
    if sum(1 if name.casefold() in _SPEAKING else names[name] for name in labels) >= 2:
        theirs -= labelled
        for name in [name for name in names if name in labels or name.casefold() in _ADDRESSES]:
            del names[name], saying[name]
        if max(names.values(), default=0) < 2:
            return frozenset()
    if saying.total() >= 2 and 2 * theirs >= count:
        return frozenset(+saying)
    return frozenset(name for name, times in names.items() if times >= 2 and not throughout)


def split_by_speaker(
    lines: Sequence[str], speakers: frozenset[str], listed: frozenset[str] = frozenset()
) -> list[SpeakerLines]:
    """Split the lines of a paragraph by speaker. A speaker's lines end at the next name, with the paragraph, or after
    the bracket that closes a speech in brackets.

    listed: names that are known to be speakers', of any form. A name that nothing follows is read aloud as text. Marks
    before a name of `speakers` are put before its speech.
    """
    parts, known = [SpeakerLines(None, [])], speakers | listed
    in_brackets = is_over = False  # whether the last speech is in brackets, and whether it has ended
    for number, line in enumerate(lines, 1):
        bare = _MARKS.sub("", line) if speakers else line
        found = _match_listed(line, listed) or _match(bare)
        if found is None or found[0] not in known or (not found[1] and number == len(lines)):
            if is_over:
                parts.append(SpeakerLines(None, []))
            _append(parts[-1], line)
            in_brackets = in_brackets and not is_over
        else:
            name, text = found[0], line[: len(line) - len(bare)] + found[1]
            parts.append(SpeakerLines(name, [text] if text else []))
            in_brackets = _QUOTED.match(bare) is not None
        is_over = in_brackets and line.rstrip("。．！？!?…").endswith(("」", "』"))
    return [part for part in parts if part.lines]


def _match_listed(line: str, listed: frozenset[str]) -> tuple[str, str] | None:
    """Return the listed speaker of a line `name: text`, the longest that fits, and the text."""
    colon = line.rfind(":", 0, MAX_SPEAKER + 1) if listed else -1
    while colon > 0:
        if line[:colon] in listed:
            return line[:colon], line[colon + 1 :].strip()
        colon = line.rfind(":", 0, colon)
    return None


def _match(line: str) -> tuple[str, str] | None:
    """Return the speaker and the text of a line; None if it names no speaker."""
    found = _LINE.match(line) or _quoted(line)
    if found is None:
        return None
    name, direction, text = found.group("name", "direction", "text")
    tag = found.groupdict().get("tag")
    speaker = " ".join((name or tag or "").split())
    if len(speaker) > MAX_SPEAKER or (_STYLE.search(speaker) if tag else _SAYS.search(f"{speaker}:{text[:1]}")):
        return None
    space = "" if (direction or "").endswith("）") else " "
    directed = direction_tag(direction or "") if text else direction or ""
    return speaker, f"{directed}{space}{text}".strip()


def direction_tag(direction: str) -> str:
    """Return a direction in brackets as a style tag, which is not read aloud; "" for `(CONT'D)` and the like.

    Marks, as in `[speed:2]`, stay; in round brackets they are none.
    """
    content = direction[1:-1].strip()
    if _MARK.match(content):
        return direction if direction.startswith("[") else ""
    return "" if _EXTENSION.fullmatch(content) else style_tag(content)


def _append(part: SpeakerLines, line: str) -> None:
    """Append a line. A direction that has the line of the speaker's name for itself is put before it."""
    if part.speaker is not None and len(part.lines) == 1 and regex.fullmatch(_DIRECTION, part.lines[0]):
        line = f"{direction_tag(part.lines.pop())} {line}".strip()
    part.lines.append(line)


def _quoted(line: str) -> "regex.Match[str] | None":
    """Return the match of a line that consists of a name and a speech in brackets, which may go on on the next line."""
    found = _QUOTED.match(line)
    if found is None:
        return None
    closing = "」" if found["text"].startswith("「") else "』"
    return found if closing not in found["text"] or not _AFTER_SPEECH[closing].search(found["text"]) else None
