"""Abbreviations, acronyms, letters and Roman numerals as words."""

import re
import unicodedata

from engine.text.english.dates import MONTH, weekday
from engine.text.english.numbers import cardinal, ordinal, roman
from engine.text.english.rules import NAME, SPELL, Rule, before, ends_text, rule, spelled
from engine.text.sentences import BEFORE_LETTER, CAPITALS, opens_sentence, says_no

_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "prof": "professor", "jr": "junior", "sr": "senior",
    "vs": "versus", "etc": "et cetera", "approx": "approximately", "dept": "department", "gen": "general",
    "capt": "captain", "lt": "lieutenant", "col": "colonel", "sgt": "sergeant", "rev": "reverend", "hon": "honorable",
    "gov": "governor", "sen": "senator", "rep": "representative", "mt": "mount", "ft": "fort", "ave": "avenue",
    "rd": "road", "blvd": "boulevard", "inc": "incorporated", "ltd": "limited", "corp": "corporation", "jan": "january",
    "feb": "february", "apr": "april", "aug": "august", "sept": "september", "oct": "october", "nov": "november",
    "dec": "december", "mon": "monday", "tue": "tuesday", "tues": "tuesday", "thu": "thursday", "thurs": "thursday",
    "fri": "friday", "tel": "telephone", "fig": "figure", "vol": "volume", "apt": "apartment", "pres": "president",
    "maj": "major", "cpl": "corporal", "cmdr": "commander", "adm": "admiral", "supt": "superintendent",
    "hwy": "highway", "pkwy": "parkway", "bros": "brothers", "univ": "university", "cf": "compare",
    "govt": "government", "incl": "including", "doz": "dozen", "attn": "attention",
    "pvt": "private", "pfc": "private first class", "ens": "ensign", "det": "detective", "insp": "inspector",
    "atty": "attorney", "amb": "ambassador", "qtr": "quarter", "viz": "namely",
}  # fmt: skip
# Abbreviations only with a capital and text after them: "Col. Brown", not "He ate a fig."
_BEFORE_NAMES = {
    "gen", "col", "rev", "hon", "sen", "rep", "mt", "lt", "fig", "vol", "tel", "jan", "apr", "dec", "mon", "apt",
    "pres", "maj", "adm", "ens", "det", "amb",
}  # fmt: skip
# These may end a sentence within a text: "Hill Bros. They left."
_MAY_END = {
    "jr", "sr", "etc", "dept", "ave", "rd", "blvd", "inc", "ltd", "corp", "pkwy", "bros", "univ", "govt", "doz", "qtr",
}  # fmt: skip
_BEFORE_NUMBERS = {
    "no": "number", "nos": "numbers", "p": "page", "pp": "pages", "ch": "chapter", "sec": "section",
    "c": "circa", "ca": "circa", "rm": "room", "eq": "equation",
    "fig": "figure", "figs": "figures", "vol": "volume", "vols": "volumes", "ext": "extension", "apt": "apartment",
    "bldg": "building", "chap": "chapter", "op": "opus", "para": "paragraph", "pt": "part", "sect": "section",
    "ste": "suite", "tel": "telephone", "est": "established", "max": "maximum", "min": "minimum",
    "rte": "route",
}  # fmt: skip
_YEAR = re.compile(r"[12]\d{3}(?![,.]?\d)")
# In small letters these are units after a number: "5 ft.", "3 sq. ft.".
_NO_UNIT = r"(?!(?:(?<=\d\s)|(?<=\bsq\s))(?-i:c|ch|ft|FT|min|ms|mt|p|pt|sec)\.|(?<=\d-)(?-i:ft|min|sec)\.)"
_TITLES = "Capt|Col|Lt|Ms|Prof|Sgt"  # also without a full stop, before a name
_NAME_BEFORE = re.compile(
    r"[^.!?\s]\s+(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|(?:In|On|At|And|But|The|Then|When|As|If|That)\b)"
    r"[A-Z][a-z]+\s+$|\d(?:st|nd|rd|th)\s+$"
)
_REACH = 60  # characters searched for a name before an abbreviation

_BELOW_90 = r"(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?<=[IVXL])\b"
_NUMERAL, _ANY_NUMERAL = rf"(?=[IVXL]{{2}}){_BELOW_90}", rf"(?=[IVXL]){_BELOW_90}"
_PARTS = (
    "Act|Appendix|Article|Book|Bowl|Chapter|Class|Episode|Grade|Level|Part|Phase|Scene|Season|Section|Stage|Title"
    "|Type|Unit|Volume|World War"
)
_NUMBERED = f"{_PARTS}|{_PARTS.upper()}"
_RULERS = (
    "Alexander|Alfonso|Benedict|Boniface|Carl|Catherine|Charles|Christian|Clement|Constantine|Darius|Edward|Elizabeth"
    "|Emmanuel|Eugene|Ferdinand|Francis|Frederick|George|Gregory|Gustav|Haakon|Harald|Henry|Innocent|Ivan|James|John"
    "|John Paul|Joseph|Juan Carlos|Julius|Leo|Leopold|Louis|Margrethe|Mary|Napoleon|Nicholas|Olav|Otto|Paul|Pedro|Peter"
    "|Philip|Pius|Ptolemy|Rameses|Ramesses|Ramses|Richard|Robert|Rudolf|Sixtus|Thutmose|Umberto|Urban|Victor|Wilhelm"
    "|William|Xerxes"
)
# The numerals I and V after other words than `_NUMBERED` and `_RULERS` are a pronoun and a letter.
_FIRST = r"I(?='s\b|[,;:!?)]|\.?\s*\Z|\s(?:of|ruled|reigned)\b)"
_PRONOUN = (
    r"I(?i:'|\s(?:also|always|am|can|could|did|didn't|do|don't|enjoy|feel|felt|found|get|got|had|hate|have|hear|heard"
    r"|just|know|like|liked|love|loved|may|mean|miss|missed|must|need|never|play|played|prefer|read|really|remember|said"
    r"|saw|say|see|should|still|think|told|took|use|used|want|wanted|was|will|would|wrote)\b)"
)
_NO_LETTER = f"(?!{SPELL})"  # an initial: "John V. Hill"
_NO_NAMES = "A|An|And|At|By|For|From|In|Of|On|Or|The|To|With"

_IT_NOUN = "(?:department|dept|director|manager|staff|support|team)"
# After these, "A" is a letter and not an article.
_BEFORE_A = (
    "an|apartment|appendix|block|building|chapter|class|exhibit|figure|gate|grade|group|hepatitis|level|option|part|plan"
    "|section|straight|suite|team|terminal|type|unit|vitamin"
)
_LETTER_BEFORE = re.compile(rf"\b(?:{_BEFORE_A}|degrees)\s\Z", re.I)  # "Plan B. Everybody left."


def _abbreviation(match: re.Match[str]) -> str:
    """Return an abbreviation's word, with the full stop if that also ends a sentence."""
    word = match[1].lower()
    if word in ("dr", "st"):
        return _doctor_or_street(match, word)
    if word in _BEFORE_NAMES and (match[1].islower() or ends_text(match)):
        return match[0]
    if match[1] in CAPITALS and (ends_text(match) or opens_sentence(match.string, match.end())):
        return spelled(match[1], stop=True)
    ends = ends_text(match) or (word in _MAY_END and opens_sentence(match.string, match.end()))
    return _ABBREVIATIONS[word] + ("." if ends else "")


def _doctor_or_street(match: re.Match[str], word: str) -> str:
    """Expand "Dr." and "St." to doctor and saint before a name, to drive and street after one."""
    has_stop = match[0].endswith(".")
    name_follows = NAME.match(match.string, match.end()) is not None
    # The first word of a sentence is always capitalised, so it is no evidence of a name.
    name_precedes = _NAME_BEFORE.search(before(match, _REACH)) is not None
    if name_follows and not name_precedes:
        return {"dr": "Doctor", "st": "Saint"}[word]
    if not has_stop:
        return {"dr": "Drive", "st": "Street"}[word] if name_precedes else match[0]
    return {"dr": "Drive", "st": "Street"}[word] + ("." if name_follows or ends_text(match) else "")


def _number(match: re.Match[str]) -> str:
    """Return the word of an abbreviation before a number."""
    word = match[1].lower()
    if word == "no" and says_no(match.string, match.end(1)):
        return match[0]
    if word == "est" and not _YEAR.match(match.string, match.end()):
        return "estimated "
    return f"{_BEFORE_NUMBERS[word]} "


def _initial(match: re.Match[str]) -> str:
    is_last = opens_sentence(match.string, match.end()) or _LETTER_BEFORE.search(before(match, _REACH))
    return match[0] if is_last else match[1] + SPELL


def _heading(match: re.Match[str]) -> str:
    """Read the numeral of a heading, "II. The River". A single letter may be an initial."""
    is_initial = len(match[1]) == 1 and not opens_sentence(match.string, match.end() + 1)
    return match[0] if is_initial else cardinal(roman(match[1]))


def _dotted(match: re.Match[str]) -> str:
    return spelled(match[0], ends_text(match))


def _greek_letter(match: re.Match[str]) -> str:
    return f" {unicodedata.name(match[0]).split()[-1].lower().replace('lamda', 'lambda')} "


def _joined_letters(match: re.Match[str]) -> str:
    return f"{match[1]}{SPELL} and {match[2]}{SPELL}" + ("'s" if match[3] else "")


ABBREVIATIONS: tuple[Rule, ...] = (
    rule(r"\b([A-Z]{1,3})&([A-Z]{1,3})('?s)?\b", _joined_letters),
    rule(r"(?i)\btl;dr\b", spelled("tldr")),
    rule(r"(?i)\be\.g\b\.?,?", "for example,"),
    rule(r"(?i)\bi\.e\b\.?,?", "that is,"),
    rule(rf"(?i)(?<!\.)(?<![a-z]-)\b{_NO_UNIT}({'|'.join(_BEFORE_NUMBERS)})\.\s*(?=\d)", _number),
    rule(
        rf"\b{_NO_UNIT}({'|'.join(BEFORE_LETTER)})\.\s*(?=(?:[A-Z]|[IVXL]+)\b(?!'))",
        lambda match: f"{_BEFORE_NUMBERS[match[1].lower()].capitalize()} ",
    ),
    rule(
        rf"\b(Wed|Sat|Sun)\.(?=,|\s*\d|\s(?:at|from|morning|afternoon|evening|night|{MONTH})\b)",
        lambda match: weekday(match[1]),
    ),
    rule(r"\bfl\. ?(?=oz\b)", "fl "),
    rule(r"\bsq\. ?(?=(?:ft|mi|k?m)\b)", "sq "),
    rule(r"((?:\b[Tt]he |\b[Aa]n |\A)Ave)\.(?= Maria\b)", r"\1"),
    rule(rf"(?i)(?<!\bdot )\b{_NO_UNIT}(dr|st|{'|'.join(_ABBREVIATIONS)})\.(?!\w)", _abbreviation),
    rule(r"(?<!\d )\bFr\.(?=\s[A-Z][a-z])", "Father"),  # not francs: "5 Fr."
    rule(rf"\b({_TITLES})(?=\s[A-Z][a-z])", lambda match: _ABBREVIATIONS[match[1].lower()]),
    rule(r"\b(Dr|St)\b(?!\.)", lambda match: _doctor_or_street(match, match[1].lower())),
    rule(r"\b(Mr|Mrs)\b", lambda match: _ABBREVIATIONS[match[1].lower()]),
    rule(r"\bet al\.", "et al"),
    # Also without a full stop: "Fifth Ave".
    rule(r"(?<=\w )(Ave|Blvd|Hwy|Pkwy|Rd)\b(?!\.| Maria)", lambda match: _ABBREVIATIONS[match[1].lower()].capitalize()),
    rule(r"\bHwy(?= \d)", "Highway"),
    rule(r"\bApt(?= (?:\d|#|[A-Z]\b))", "Apartment"),
    rule(r"(?<=\d(?:st|nd|rd|th) )Fl\b(?:\.(?=,))?", "Floor"),
    rule(
        r"(?:(?<=\()|(?<=[a-z], )|(?<=b\. \d{4}, ))(b|d)\. (?=[12]\d{3}\b)",
        lambda match: "born " if match[1] == "b" else "died ",
    ),
    rule(r"(?<=[a-z.] )v\.(?=\s+[A-Z])", "versus"),
    rule(r"(?<=[A-Za-z])'n'(?=[A-Za-z])| 'n' (?=[Rr]oll\b)", " and "),  # elsewhere "n", or a variable: "if 'n' is even"
    rule(r"\bc/o\b", "care of"),
    rule(r"\bw/o\b", "without"),
    rule(r"\bw/\s?(?=\w)", "with "),
    rule(r"\bb/c\b", "because"),
    rule(r"\band/or\b", "and or"),
)
ACRONYMS: tuple[Rule, ...] = (
    rule(r"\b(?:Ph\.D|Psy\.D|Ed\.D|[BM]\.Sc|LL\.[BM])\b\.?", _dotted),
    rule(r"\b(?:[A-Za-z]\.){2,}", _dotted),
    rule(r"\b(?:[A-Z]\.)+[A-Z]\b", _dotted),  # without the last full stop
    rule(r"\b([A-Z])\.(?=\s+[A-Z]|(?<!I\.)\s+[a-z])", _initial),
    rule(rf"\bIT\b(?:(?<=\b(?:[AaIi]n|of) IT)|(?<=\b(?:our|the) IT)|(?=\s{_IT_NOUN}))", spelled("IT")),
    rule(r"\b[Tt]he (WHO)\b", lambda match: f"the {spelled(match[1])}"),
    rule(r"\b([A-G])[#♯]", rf"\1{SPELL} sharp "),
    rule(r"\b([A-G])(?:♭|b(?=[- ](?:major|minor)\b))", rf"\1{SPELL} flat"),
    rule(r"#([A-Z]{1,3})(?:-(?=\d+\b)|(?=\d{3,}\b))", lambda match: f" number {spelled(match[1])} "),  # "#A-1043"
    rule(r"#(?=[A-Za-z])", " hashtag "),
    rule(r"\bpH\b", spelled("pH")),
)
NUMERALS: tuple[Rule, ...] = (
    rule(r"\bWW(?=I{1,2}\b|[12]\b)", "World War "),
    rule(rf"\A\s*+(?!XL|X+(?![.IVXL]))({_ANY_NUMERAL})(?=\.?\s*\Z|\.\s+[A-Z])", _heading),
    rule(rf"\b({_NUMERAL})(?=\scentur(?:y|ies)\b)", lambda match: ordinal(roman(match[1]))),
    rule(  # "Act II, Scene iii", "page xii"
        rf"\b((?:{_NUMBERED}|[Pp]ages?|act|chapter|scene) )(?=[ivxl]{{2}})({_BELOW_90.lower()})",
        lambda match: match[1] + cardinal(roman(match[2].upper())),
    ),
    rule(
        rf"\b((?:{_NUMBERED}) )(?!{_PRONOUN})({_ANY_NUMERAL}){_NO_LETTER}",
        lambda match: match[1] + cardinal(roman(match[2])),
    ),
    rule(
        rf"\b((?:{_RULERS}) )({_NUMERAL}|[VX]\b{_NO_LETTER}(?!\.\s*[A-Z])|{_FIRST})",
        lambda match: f"{match[1]}the {ordinal(roman(match[2]))}",
    ),
    rule(rf"\b((?:King|Queen|Pope|Emperor|Empress|Tsar) (?:{_RULERS}) )I(?=\s(?:was|became)\b)", r"\1the first"),
    rule(
        rf"\b((?!(?:{_NO_NAMES})\b)[A-Z][a-z]+ )((?=[IVX]{{2}})X{{0,2}}(?:IX|IV|V?I{{1,3}}|V))\b"
        r"(?!\s(?:antibiotics|bag|drip|fluids?|line|therapy)\b)",
        lambda match: match[1] + cardinal(roman(match[2])),
    ),
)
LETTERS: tuple[Rule, ...] = (
    rule(r"(?<=[a-z])\((e?s)\)", r"\1"),  # "book(s)"
    rule(r"(?<=[\w)])\((?:(a)|([a-z]|\d{1,2}))\)", lambda m: f" {spelled(m[1]) if m[1] else m[2]} "),  # "5(1)(a)"
    rule(r"(?<![\w'])a(?=\))", f"A{SPELL}"),  # of a list
    rule(r"([<>!])=(?=[\s\w-])", lambda match: {"<": " ≤ ", ">": " ≥ ", "!": " ≠ "}[match[1]]),
    rule(r"§§\s?", "sections "),
    rule(r"(?<![^\W_])_+|_+(?![^\W_])", ""),  # around words that are stressed, and for gaps
    rule(r"\b([A-Z])–([A-Z])\b|\b(A)-(Z)\b", lambda m: f"{m[1] or m[3]}{SPELL} to {m[2] or m[4]}{SPELL}"),
    rule(r"(?<![\u0370-\u03ff\u1f00-\u1fff])[Α-ΡΣ-Ωα-ω](?![\u0370-\u03ff\u1f00-\u1fff]|[a-z]{2})", _greek_letter),
    rule(r"\b([A-Z]{1,2})(?=\d)", rf"\1{SPELL} "),  # "CO2", "A380"
    rule(r"(?<=\d)([A-Z])\b", rf" \1{SPELL}"),  # "4K"
    rule(r"\b([A-D])-(?=\s+(?:average|for|grade|in|on|student)\b|[.,;!?)]|\s*\Z)", rf"\1{SPELL} minus"),
    rule(rf"\b((?i:{_BEFORE_A}) )A\b", rf"\1A{SPELL}"),
    rule(r"\bA-(?=\d)", f"A{SPELL} "),
    rule(r"\bA(?=(?:'s\b|[+-](?![\w])|-[a-z]|/[A-Z]\b| (?:to|and|or|&|[-=]+>) [B-Z]\b))", f"A{SPELL}"),
    rule(r"\bA(?=[,;:!?)]|\.(?!\.)|\s*\Z)", f"A{SPELL}"),  # the article is before a word
    rule(r"\b((?i:straight|two|three|four|five|six|all) )As\b", rf"\1A{SPELL}'s"),
)
DOTS: tuple[Rule, ...] = (rule(r"(?:(?<=[A-Za-z])|(?<!\S))\.(?=[A-Za-z])", " dot "),)
