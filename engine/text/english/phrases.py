"""Phrases of English sentences, as far as function words show them: how closely two neighbouring words are joined."""


def _words(*lists: str) -> frozenset[str]:
    return frozenset(word for words in lists for word in words.split())


_DETERMINERS = _words(
    "a an the this these those my your his its our their each every some any no all both another such certain several",
    "many few most what whichever whose",
)
_CONJUNCTIONS = _words("and or but nor yet")
_CLAUSE_OPENERS = _words(
    "although as because before after how if lest once since so than that though till unless until when whenever where",
    "whereas wherever whether which while who whoever whom whose why",
)
_PREPOSITIONS = _words(
    "about above across against along alongside amid among amongst around at behind below beneath beside besides",
    "between beyond by concerning despite during except for from in inside into like near on onto opposite outside",
    "over past regarding through throughout toward towards under underneath upon via with within without",
)
_AUXILIARIES = _words(
    "am is are was were be been being has have had having do does did will would shall should can cannot could may",
    "might must",
)
_SUBJECTS = _words("i he she we they")
_OBJECTS = _words("me him us them himself herself itself themselves myself yourself ourselves")
_DEGREES = _words(
    "almost also even especially exactly far fairly half hardly immediately just largely less mainly merely more",
    "mostly much nearly never not only other own particularly partly quite rather same scarcely shortly so solely too",
    "twice very",
)
_NUMBERS = _words(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion",
    "dozen first second third fourth fifth last next",
)
_TITLES = _words("mr mrs ms dr prof professor sir saint st president king queen captain lord lady")
# They belong to what follows them.
_LEADING = _words("it of per to you").union(
    _DETERMINERS, _CONJUNCTIONS, _CLAUSE_OPENERS, _PREPOSITIONS, _AUXILIARIES, _SUBJECTS, _DEGREES, _NUMBERS, _TITLES
)
_CONTRACTED = ("'s", "s'", "n't", "'m", "'re", "'ve", "'ll", "'d")
_QUOTES = "\"'“‘„«»"
_SIGNS, _CLOSING = _words("« & + = < > / × ÷"), _words("» ) ]")  # with spaces around them
_ADJECTIVE_ENDINGS = ("able", "al", "ary", "ful", "ian", "ible", "ic", "ish", "ive", "less", "ous", "ly")

TIGHT = 9.0  # an article and its noun, a preposition and its object, an auxiliary and its verb, two parts of a name
_SHORT = 3  # letters; such words are mostly function words, in other languages, too
_PLAIN = 6.0  # two other words, such as a verb and its object
# What a cut costs before these words.
_BEFORE: dict[str, float] = {
    **dict.fromkeys(_NUMBERS, 5.0),
    **dict.fromkeys(_DETERMINERS | {"her"}, 4.0),
    **dict.fromkeys(_AUXILIARIES | _SUBJECTS, 3.0),
    **dict.fromkeys(_PREPOSITIONS, 2.0),
    **dict.fromkeys(_CONJUNCTIONS, 1.0),
    **dict.fromkeys(_CLAUSE_OPENERS, 0.5),
    **dict.fromkeys(_OBJECTS | {"not", "per"}, TIGHT),
    "of": 4.0,
    "to": 3.0,
    "it": 6.0,
    "you": 6.0,
    "what": 0.5,
}
_AFTER_NUMBER = _BEFORE.keys() - _NUMBERS - {"of", "per", "to"}  # others may be read together with it: "$5 million"


def cut_cost(word: str, following: str) -> float:
    """Return how much a cut between two words of a sentence disturbs: 0 between clauses, `TIGHT` within a phrase."""
    before, after = word.lower().replace("’", "'").rstrip("."), following.lower()
    if any(map(str.isdigit, following)) or (any(map(str.isdigit, word)) and after not in _AFTER_NUMBER):
        return TIGHT
    if before.endswith(_CONTRACTED) or (before in _LEADING and following[0] in _QUOTES):
        return TIGHT
    if word in _SIGNS or following in _CLOSING:
        return TIGHT
    if not ((word[-1].isalnum() or word[-1] == ".") and following[0].isalnum()):
        return 1.0  # before or after quotation marks, brackets or signs
    if before in _LEADING or (word[0].isupper() and following[0].isupper()):
        return TIGHT
    if after in _BEFORE:
        return _BEFORE[after]
    tight = before.endswith(_ADJECTIVE_ENDINGS) or len(word) <= _SHORT
    return _PLAIN + 2.0 * tight - (len(following) <= _SHORT)
