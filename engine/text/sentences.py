"""Detection of places where a reader pauses: sentence ends of any script, clause marks, gaps between words.

Sentence ends and closing marks follow Unicode's Sentence_Break properties (UAX #29). Abbreviations, initials, numbers
and ellipses are recognised by context.
"""

from collections.abc import Iterator
from itertools import pairwise

import regex

from engine.text.english.formulas import MOVE
from engine.text.english.verses import BOOKS
from engine.text.tags import SPACELESS, SPEAKER_TAG, STYLE_TAG, is_speakable

Span = tuple[int, int]
"""Start and end of a part of a text."""

_TAG = rf"(?:{STYLE_TAG.pattern}|{SPEAKER_TAG.pattern})"
_LEADING = regex.compile(rf"(?:\s|{SPEAKER_TAG.pattern})*+")

# Also numbers of notes, "so.[1]", and marks that open quotations in other languages: "„Ja.“ Er", "»Ja.« Er".
_CLOSERS = r"(?:\[\d{1,3}\]|[\p{Pe}\p{Pf}\"']|[ \u00a0\u202f]»(?!\S)|[“‘«‹](?=[\s\p{Po}\p{Pd}]|$))*+"
_SPACED_QUOTE = regex.compile(r"[ \u00a0\u202f]\"(?!\S)")  # as in French, cleaned
# Armenian has a full stop like a colon, and Greek a question mark like a semicolon.
_MARK = r"(?:[\p{SB=STerm}\p{SB=ATerm}…]|(?<=\p{Armenian}):|(?<=\p{Greek});)"
# Full stops in dates, "24. 12. 2023" and "2024. 5. 12".
_DATE = r"(?<!\p{N})(?:\p{N}{1,2}\.\s\p{N}{1,2}\.\s\p{N}{4}|\p{N}{4}\.\s\p{N}{1,2}\.\s\p{N}{1,2})(?!\p{N})"
# Marks in style tags, dates and Chinese titles end nothing.
_TERMINATED = regex.compile(rf"{STYLE_TAG.pattern}|《[^《》\n]{{1,80}}》|{_DATE}|(?P<mark>{_MARK}++){_CLOSERS}")
# Inside a word these belong to a URL, a number or a name. Marks of other scripts need no space after them.
_NEEDS_SPACE = ".!?…:;"
_DECIMAL = regex.compile(r"(?<=\p{N})．\p{N}")
_MAX_TAGS = 8  # skipped at a sentence end
# After a mark and its quotes and tags, a small letter or a comma shows that the sentence continues.
_GOES_ON = regex.compile(
    rf"\s*+(?:{_TAG}\s*+){{0,{_MAX_TAGS}}}+"
    rf"(?:(?:\p{{Pd}}\s)?[\p{{Pd}}\p{{Ps}}\p{{Pi}}\"']*+[\p{{Ll}}--\p{{Georgian}}]|[,;،、，])",
    regex.VERSION1,
)
# After a quotation these tell that it was said: "「はい。」と言った", "「네.」라고 했다".
_QUOTED = regex.compile(r"(?r)[」』\"”’']")
_SAYS_SO = regex.compile(
    r"、?(?:と(?!同時)(?=[\p{Han}\p{Katakana}、「]|い[いうえっ]|こた|さけ|ささや|たずね|つぶや)|って|など)"
    r"|\s?(?:이?라고|라며|라는|하고|하며)(?![\p{Hangul}])"
)
_EXTENDS = regex.compile(r"[\p{M}\u200c\u200d]")
_CAPITAL = regex.compile(r"\p{Lu}")

# A full stop after these never ends a sentence; after `_BEFORE_NUMBER`, it does not if a number follows.
_ABBREVIATIONS = frozenset(
    "mr mrs ms mx dr prof rev hon gen adm col maj capt cmdr lt sgt cpl supt gov sen rep pres st mt ft vs cf ca"
    " eg pvt pfc insp atty ie aka incl approx hr fr nr bzw evtl ggf vgl mme mlle mgr sr sra srta"
    " dra dña ud uds lic ing dott avv dhr mevr bijv avda ee skt napr např tzv проф акад ул оз просп"
    " inkl exkl zzgl boul arq gral exmo exma geom św inż płk ppłk mjr kpt m.in doç yrd öğr"
    " डॉ प्रो पं बी सी डी एफ एच जे के एल एम एन ओ पी आर एस टी यू".split()
)
_CAPITALISED = frozenset("Amb Av Det Ens".split())  # others are words: "Jeg vet det. Han …"
# Of other languages; in English names and words, which end sentences: "He drew his Sig. The", "I saw TJ. He".
_AMBIGUOUS = frozenset("Bd Eng GS Ks Np PGS Sig Sigg Sn TP TS ThS bd ks np sig sigg tj tzn".split())
CAPITALS = frozenset("CA FT MS MT ST".split())  # if a sentence follows, a state, a newspaper, an illness
_BEFORE_NUMBER = frozenset(
    "no nos vol vols fig figs eq p pp ch chap sec sect para art op pt rm apt bldg ste ext tel ca est max min rte hwy"
    " str abb abs abt kap pág pag pagg cap núm apto godz rozdz ust pkt poz nº кв рис стр гл ст руб"
    " jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
# Also before a letter or a Roman numeral: "Fig. A", "Ch. IV".
BEFORE_LETTER = ("Apt", "Bldg", "Ch", "Chap", "Fig", "Figs", "Pt", "Sec", "Sect", "Ste", "Vol", "vol")
# After a number these are units, which may end a sentence; those of recipes do not before a small letter or a part.
_UNITS = frozenset("min pt sec".split())
_OF_RECIPES = frozenset("doz fl ft gal hr hrs in lb lbs oz pkg pt qt qts sq tbs tbsp tsp".split())
_SPOONS = frozenset("tbs tbsp tsp".split())  # also with a capital: "2 Tbs."
_DEGREES = frozenset("dent habil ing jur med nat oec phil pol theol vet".split())  # "Dr. med. Au", "Dr. rer. nat. Au"
_DOCTOR_BEFORE = regex.compile(r"(?r)\bDr\.\s(?:\p{Ll}+\.\s)?")
_WEEKDAYS = frozenset("Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun".split())  # before a month: "Mon. Jan 5"
# After initials ("p.m.", "U.S.") these words begin a sentence of their own; most others are part of a name.
_OPENS = regex.compile(
    r"\s+[\p{Ps}\p{Pi}\"']*+(?:[¿¡]|(?:A|An|The|This|That|These|Those|There|I|He|She|It|We|You|They|My|His|Her|Its"
    r"|Our|Their|And|But|So|Then|When|While|After|Before|If|In|On|At|For|Now|What|Who|How|Why|Where|Because|Since"
    r"|Although|However|Both|Each|Every|Everyone|Nobody|Another|Here|Yes|During|Despite|Meanwhile|Instead|Until"
    r"|Unless|Though|Perhaps|Maybe|Also|Today|Yesterday|Tomorrow|Did|Do|Does|Is|Are|Was|Were|Has|Have|Had|Can|Could"
    r"|Would|Should|Let|Please|Some|Many|Most|Not|As|By|From|With)"
    r"(?=[\s'’,]))"
)
# After these, "no." is an answer, and the number that follows begins a sentence.
_SAYS_NO = regex.compile(
    r"(?r)\b(?:say|says|said|saying|answer|answers|answered|replied|oh|course)[,:]?\s+[\"']*no", regex.I
)
_LAST_WORD = regex.compile(r"(?r)[\p{L}\p{M}\p{N}.]+")
_INITIALS = regex.compile(r"(?:[\p{Lu}\p{Ll}]\p{M}*\.)*[\p{Lu}\p{Ll}]\p{M}*")
_NUMBER_FOLLOWS = regex.compile(r"\s*[(+'’]{0,2}\p{N}")
_NUMBER_BEFORE = regex.compile(r"(?r)\p{N}[\s\p{Pd}]?")
# "1 lb. 4 oz.", "1 lb. (450 g)"
_UNIT_GOES_ON = regex.compile(r"\s+(?:\(?\p{Ll}|\(\p{N}|\p{N}{1,2}\s?(?:cups?|in|mins?|oz|pt|secs?|tbsp|tsp)\b)")
_LETTER_FOLLOWS = regex.compile(r"\s*(?:\p{Lu}|[IVXLC]++)\b(?!['’])")
_VERSE_FOLLOWS = regex.compile(r"\s+\p{N}{1,3}:\p{N}{1,3}\b(?!\s*[ap]\.?m)")  # of the Bible
_MOVE_FOLLOWS = regex.compile(rf"\s+{MOVE}")  # of chess
_MONTH_FOLLOWS = regex.compile(
    r"\s+(?:\p{N}{1,2}/\p{N}|(?:\p{N}{1,2}\s+)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))"
)
# German ordinals: "5. August", "im 19. Jahrhundert". After the words before them, a number is one unless a word follows
# that is not a noun. "I am 5." is English.
_GERMAN_MONTH_FOLLOWS = regex.compile(
    r"\s+(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b", regex.I
)
_BEFORE_ORDINAL = regex.compile(
    r"(?r)\b(?:d(?:as|e[mnrs]|ie)|(?<!\bI\s)am|im|beim|vom|zu[mr]|jede[mnrs]?|[dms]?eine?[mnrs]?|ihre?[mnrs]?)\s+",
    regex.I,
)
_NOUN_FOLLOWS = regex.compile(
    r"\s+(?!(?:Aber|Als|Am|An|Auf|Da|Dann|Danach|Das|Der|Die|Doch|Du|Ein|Eine|Er|Es|Heute|Hier|Ich|Ihr|Im|In|Jetzt|Man"
    r"|Mit|Nach|Sie|So|Und|Was|Wenn|Wer|Wie|Wir|Wo)\b)[\p{L}\p{N}]",
    regex.I,
)
_ERA_FOLLOWS = regex.compile(r"\s?(?:Chr|J|C|Kr)\b[.-]")  # "44 v. Chr.", "av. J.-C."
# Abbreviations, and what follows them within a sentence.
_BEFORE = {
    **dict.fromkeys("ave blvd hwy pkwy rd".split(), regex.compile(r"\s+(?:[NS][EW]?|[EW])(?=[\s,.]|\Z)")),  # "Ave. NW"
    **dict.fromkeys("mio mrd tsd tys mln mld тыс млн млрд".split(), _NOUN_FOLLOWS),  # "5 Mio. Euro"
    **dict.fromkeys("abt séc sécs".split(), regex.compile(r"\s+[IVXLC]+\b")),
    "av": _ERA_FOLLOWS,
    "co": regex.compile(r"\s+(?:KG|KGaA|OHG|Inc|LLC|Ltd)\b"),  # "GmbH & Co. KG"
}
# A single letter that is no initial: "20 °C.", "90 km/h.", "I won't.", "5 m.", "1989 г.", but "Game 5 v. Boston"
_NO_INITIAL = regex.compile(r"[°/]\p{L}|\p{L}['’]\p{Ll}|\p{N}\s?[ghklmrs[\p{Ll}--\p{Latin}]]$", regex.V1)
_TEMPERATURE = regex.compile(r"(?r)\bdegrees\s[CF]")
_AND_SO_ON = regex.compile(r"(?r)\bи\s+т\.\s?[дп]", regex.I)  # "и т. д."
# In these scripts a single letter before a full stop abbreviates a word, in Thai a few consonants: "د.", "พ.ศ."
_ONE_LETTER = regex.compile(
    r"(?:[\p{Arabic}\p{Hebrew}--\P{L}]\.)*[\p{Arabic}\p{Hebrew}--\P{L}]|(?:[ก-ฮ]{1,3}\.)*[ก-ฮ]{1,3}", regex.V1
)
# A list item or a heading: "2.", "b.", "IV.". After a question it is an answer, and so are some words in Korean.
_PLACE = regex.compile(r"\p{N}{1,3}|[\p{L}--[네예응왜자끝음]]|[IVXL]+", regex.V1)
_TEXT = regex.compile(r"[\p{L}\p{N}]")
_QUESTION_BEFORE = regex.compile(r"(?r)[?？]\S?\s*")
_LONGEST_WORD = 24  # characters examined before a full stop

# In scripts without spaces: cut between any two graphemes, but not before closing or lengthening marks.
# A flag is a pair of letters, counted from the start of a sequence; `\X` alone would restart at each letter.
_ANY_GRAPHEME = r"(?:[\U0001f1e6-\U0001f1ff]{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X)"
_LETTER = rf"(?!\s|—|{_TAG}|{SPACELESS}){_ANY_GRAPHEME}"
_WORD = (
    rf"(?:\p{{Ps}}*+(?={SPACELESS})\X(?:(?!{_TAG})(?=[\p{{Po}}\p{{Pe}}\p{{Pf}}\p{{Lm}}\p{{Sk}}\"'…—])\X)*+"
    rf"|(?:{_LETTER})*+—++[\"']*+|(?:{_LETTER})++)"
)
# A tag stays with the word that it applies to.
_ATOM = regex.compile(rf"(?:{_TAG}\s*+){{0,4}}+{_WORD}|(?:{_TAG}\s*+){{1,4}}+")
_TAGS = regex.compile(_TAG)
_LEADING_TAGS = regex.compile(rf"\s*+(?:{_TAG}\s*+)++")
_SENTENCE_END = regex.compile(rf"{_MARK}{_CLOSERS}$")
_CLAUSE_END = regex.compile(rf"[,;:–—\p{{SB=SContinue}}،؛၊།፣፥]{_CLOSERS}$")
_GRAPHEME = regex.compile(_ANY_GRAPHEME)


def sentences(text: str, span: Span) -> Iterator[Span]:
    """Iterate over the sentences of a paragraph. Together they cover it."""
    start, end = span
    first = start
    # From here on, `start` is the first character of the paragraph's text.
    start = end - len(text[start:end].lstrip())
    # Small letters are evidence only in text that has capitals.
    cased = _CAPITAL.search(text, start, end) is not None
    paired = text.count('"', start, end) % 2 == 0
    quotes, counted = 0, start
    for found in _TERMINATED.finditer(text, start, end):
        if not found["mark"]:
            continue
        quotes += text.count('"', counted, found.end("mark"))
        counted = found.end("mark")
        after = _after_quotes(text, found, is_open=quotes % 2 == 1) if paired else found.end()
        if _ends_sentence(text, found, after, (max(start, first), end), cased):
            yield first, after
            first = after
    if text[first:end].strip():
        yield first, end


def sentence_spans(text: str) -> Iterator[Span]:
    """Iterate over the sentences of a text of several paragraphs."""
    for line in lines(text):
        yield from sentences(text, line)


def with_style(text: str, tag: str) -> str:
    """Return a text with a style tag, unless it is "", at the start of each sentence, after the speaker's tag.

    Sentences of marks alone get none.
    """
    if not tag:
        return text
    spoken = [span for span in sentence_spans(text) if is_speakable(text[slice(*span)])]
    starts = [found.end() for span in spoken if (found := _LEADING.match(text, *span))]
    parts = [text[start:end] for start, end in pairwise([0, *starts, len(text)])]
    return f"{tag} ".join(parts)


def lines(text: str) -> Iterator[Span]:
    """Iterate over the lines of a text. Together they cover it."""
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def _after_quotes(text: str, found: "regex.Match[str]", is_open: bool) -> int:
    """Return the end of a mark and the quotation marks that close there. is_open: whether a quotation is open."""
    if not is_open and found["mark"].strip(_NEEDS_SPACE) and text.startswith('"', found.end("mark")):
        return found.end("mark")  # it opens the next sentence: "你是谁？" and "“我是。”" without a space
    if is_open and (spaced := _SPACED_QUOTE.match(text, found.end())):
        return spaced.end()
    return found.end()


def _ends_sentence(text: str, found: "regex.Match[str]", after: int, span: Span, cased: bool) -> bool:
    start, end = span
    mark = found["mark"]
    if after == end:
        return True
    if not text[after].isspace() and (not mark.strip(_NEEDS_SPACE) or _DECIMAL.match(text, found.start())):
        return False
    if _EXTENDS.match(text, after) or (_QUOTED.match(text, 0, after) and _SAYS_SO.match(text, after, end)):
        return False
    if cased and _GOES_ON.match(text, after, end):
        return False
    return mark != "." or not _is_abbreviated(text, start, found.start(), after)


def _is_abbreviated(text: str, start: int, stop: int, after: int) -> bool:
    """Whether the full stop at `stop` belongs to the word before it, in a sentence that begins at `start`."""
    found = _LAST_WORD.match(text, max(start, stop - _LONGEST_WORD), stop)
    if found is None:
        return False
    word = found[0].replace(".", "").lower()
    is_first = _TEXT.search(text, start, found.start()) is None
    if is_first and _PLACE.fullmatch(found[0]) and _QUESTION_BEFORE.match(text, 0, start) is None:
        return True
    counted = word in _UNITS | _OF_RECIPES and _NUMBER_BEFORE.match(text, start, found.start()) is not None
    if counted and (found[0].islower() or word in _SPOONS):
        return word in _OF_RECIPES and _follows(_UNIT_GOES_ON, text, after)
    if found[0] in _AMBIGUOUS:
        return not opens_sentence(text, after)
    if found[0] in CAPITALS and opens_sentence(text, after):
        return False
    if _is_abbreviation(found[0]) or (found[0].title() in BOOKS and _follows(_VERSE_FOLLOWS, text, after)):
        return True
    if _INITIALS.fullmatch(found[0]):
        if _TEMPERATURE.match(text, start, stop):
            return False
        if _NO_INITIAL.search(text, max(start, found.start() - 2), stop) or _AND_SO_ON.match(text, start, stop):
            return _follows(_ERA_FOLLOWS, text, after)
        return not opens_sentence(text, after)
    if _ONE_LETTER.fullmatch(found[0]) and text[found.start() - 1 : found.start()] not in ('"', "״"):
        return True
    if word == "no" and says_no(text, stop):
        return False
    if counted:
        return False
    if word in _BEFORE and _follows(_BEFORE[word], text, after):
        return True
    if found[0] in _DEGREES and _DOCTOR_BEFORE.match(text, start, found.start()):
        return True
    if word in _BEFORE_NUMBER or word.endswith("str"):  # German streets: "Hauptstr. 5"
        return _follows(_NUMBER_FOLLOWS, text, after) or (
            found[0] in BEFORE_LETTER and _follows(_LETTER_FOLLOWS, text, after)
        )
    if found[0] in _WEEKDAYS:
        return _follows(_MONTH_FOLLOWS, text, after)
    if word.isdigit() and len(word) <= 3 and _MOVE_FOLLOWS.match(text, after):
        return True
    return word.isdigit() and len(word) <= 2 and _is_ordinal(text, found.start(), after)


def _is_ordinal(text: str, start: int, after: int) -> bool:
    """Whether a number that starts at `start` and has a full stop is an ordinal, as in German."""
    if _follows(_GERMAN_MONTH_FOLLOWS, text, after):
        return True
    said = _BEFORE_ORDINAL.match(text, max(0, start - _LONGEST_WORD), start)
    return said is not None and _follows(_NOUN_FOLLOWS, text, after)


def _follows(pattern: "regex.Pattern[str]", text: str, at: int) -> bool:
    """Whether the text at `at` has a pattern, or its beginning where the text ends, which may be unfinished."""
    return pattern.match(text, at, partial=True) is not None


def _is_abbreviation(word: str) -> bool:
    plain = word.lower()
    return plain in _ABBREVIATIONS or plain.replace(".", "") in _ABBREVIATIONS or word in _CAPITALISED | _AMBIGUOUS


def is_title(text: str, end: int) -> bool:
    """Whether the word that ends at `end` is an abbreviation before a name, such as "Prof."."""
    if text[end - 1] != ".":
        return False
    found = _LAST_WORD.match(text, max(0, end - _LONGEST_WORD), end)
    return found is not None and found[0][0].isupper() and _is_abbreviation(found[0][:-1])


def opens_sentence(text: str, at: int) -> bool:
    """Whether the word after white space at `at` begins a sentence, although initials are before it."""
    return _OPENS.match(text, at) is not None


def says_no(text: str, end: int) -> bool:
    """Whether the word "no" that ends at `end` is an answer and not the abbreviation of "number"."""
    return _SAYS_NO.match(text, max(0, end - _LONGEST_WORD), end) is not None


def word_ends(text: str, span: Span) -> list[int]:
    """Return where to cut between words (graphemes in scripts without spaces), never in or right after a tag."""
    return [found.end() for found in _ATOM.finditer(text, *span)]


def ends_sentence(text: str) -> bool:
    """Whether text ends with a mark that ends a sentence."""
    return _SENTENCE_END.search(text, max(len(text) - 8, 0)) is not None


def is_clause_end(text: str, end: int) -> bool:
    """Whether the word that ends at `end` closes a clause with a comma, a colon or a dash."""
    return _CLAUSE_END.search(text, max(end - 4, 0), end) is not None


def tag_ends(text: str, span: Span) -> list[int]:
    """Return the ends of the tags at the beginning of a single word."""
    tags = _LEADING_TAGS.match(text, *span)
    return [found.end() for found in _TAGS.finditer(text, span[0], tags.end())] if tags else []


def grapheme_ends(text: str, span: Span) -> list[int]:
    """Return the ends of graphemes, for cutting a single word."""
    return [found.end() for found in _GRAPHEME.finditer(text, *span)]
