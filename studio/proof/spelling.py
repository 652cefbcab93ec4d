"""One spelling for English words that have two: a recogniser writes "color" where a text has "colour"."""

from __future__ import annotations

import regex

# Both texts are changed alike, so only different words that become equal do harm; few of these sound different.
_ENDINGS = tuple(
    (regex.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[a-z]{2})(?<!^sc|^fl)our(?=s$|ed|ing|ful|abl|ite|hood|ly|er|is|iz|y|$)", "or"),  # colour
        (r"(?<=[a-z]{3})is(?=e[drs]?$|ers$|ing$|ations?$|abl[ey]$)", "iz"),  # organise, realisation
        (r"(?<=[a-z]al)ys(?=e[drs]?$|ers$|ing$)", "yz"),  # analyse
        (r"(?<=[a-z]{2}[bt])re(?=[sd]?$)", "er"),  # centre, fibre
        (r"(?<=[aeiou][^aeiou]{1,3}[aeiou])ll(?=ed$|ing$|ings$|ers?$|ors?$|ists?$)", "l"),  # travelled
        (r"(?<=[a-z]{2}(?:[fr]i|ro))ll(?=s?$|ment)", "l"),  # fulfill, enroll
        (r"(?<=[a-z]{2})enc(?=e[sd]?$|eless$|ing$)", "ens"),  # defence
        (r"(?<=[a-z]{2}og)u(?=ed$)|(?<=[a-z]{2}og)ue(?=s?$)", ""),  # dialogue
        (r"(?<=[a-z])(?:ae|(?<!^p)oe)(?=[^aeiou].)|^(?:ae|oe)(?=[^r])", "e"),  # paediatric, foetus, aesthetic
        (r"(?<=^(?:to|after|back|for|up|down|in|out)ward)s$", ""),
        (r"(?<=^m)ou(?=ld|lt)", "o"),  # mould
        (r"(?<=[a-z]dg)e(?=ment)", ""),  # judgement
    )
)
# Also forms that recognisers write in another way: "all right", "going to", "Miss" for "Ms."
_WORDS = {
    "alright": "allright",
    "artefact": "artifact",
    "axe": "ax",
    "burnt": "burned",
    "cheque": "check",
    "cosy": "cozy",
    "disc": "disk",
    "doughnut": "donut",
    "draught": "draft",
    "dreamt": "dreamed",
    "gonna": "goingto",
    "gotta": "gotto",
    "grey": "gray",
    "hmm": "hm",
    "hmmm": "hm",
    "kerb": "curb",
    "kinda": "kindof",
    "leant": "leaned",
    "leapt": "leaped",
    "learnt": "learned",
    "manoeuvre": "maneuver",
    "miz": "miss",
    "mm": "hm",
    "mmm": "hm",
    "moustache": "mustache",
    "mum": "mom",
    "mummy": "mommy",
    "ok": "okay",
    "plough": "plow",
    "practise": "practice",
    "programme": "program",
    "pyjama": "pajama",
    "sceptic": "skeptic",
    "sceptical": "skeptical",
    "spelt": "spelled",
    "spilt": "spilled",
    "storey": "story",
    "sulphur": "sulfur",
    "tyre": "tire",
    "wanna": "wantto",
    "whiskey": "whisky",
    "yoghurt": "yogurt",
}


def one_spelling(word: str) -> str:
    """Return the same text for the spellings of an English word, in lower case. It may be a word of neither."""
    stem = word.removesuffix("s")
    if stem in _WORDS:
        return _WORDS[stem] + word[len(stem) :]
    for ending, replacement in _ENDINGS:
        word = ending.sub(replacement, word)
    return word
