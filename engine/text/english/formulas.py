"""Chess moves and short formulas in LaTeX as words."""

import re

from engine.text.english.rules import Rule, rule, spelled

_PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
_CHESS_SIGNS = {"x": "takes", "=": "promotes to", "+": ", check", "#": ", checkmate"}
_CASTLING = {"O-O": "castles", "O-O-O": "castles queenside"}
_END = r"(?:=[QRBN])?[+#]?(?!\w)"
# Also for `engine.text.sentences`: the full stop of "3. Bb5" ends no sentence.
MOVE = rf"(?:[KQRBN][a-h]?[1-8]?x?[a-h][1-8]{_END}|(?:[a-h]x)?[a-h][1-8]{_END}|O-O(?:-O)?{_END})"

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega"
)  # fmt: skip
# Commands of LaTeX, and how they are read.
_COMMANDS = {
    **{name: name for name in f"{_GREEK} {_GREEK.title()}".split()},
    **dict.fromkeys("boxed dfrac frac left mathbf mathrm operatorname quad right text tfrac".split(), ""),
    "approx": "about", "cdot": "times", "div": "divided by", "ge": "≥", "geq": "≥", "infty": "infinity", "ldots": ",",
    "le": "≤", "leq": "≤", "ne": "≠", "neq": "≠", "pm": "plus or minus", "sqrt": "square root of", "times": "times",
}  # fmt: skip
_SIGNS = {
    "+": "plus", "-": "minus", "*": "times", "/": "over", "=": "equals", "<": "less than", ">": "greater than",
    "_": "sub", "{": "", "}": "",
}  # fmt: skip
_POWERS = {"2": "squared", "3": "cubed"}
_COMMAND = rf"\\({'|'.join(_COMMANDS)})(?![A-Za-z])"
# Between dollars: single letters, and two with an index or a power, as in "mc^2".
_LETTERS = r"(?<![A-Za-z])(?:[A-Za-z](?![A-Za-z])|[A-Za-z]{2}(?=[\^_]))"
_MATH = re.compile(
    rf"\^(?:\{{(?P<power>[^{{}}]*)\}}|(?P<digit>\w))|(?P<over>\}}\s?\{{)|{_COMMAND}|[A-Za-z]+|[-+*/=<>_{{}}]"
)

# Chemical compounds. Letters alone may be an acronym and capitals before a number a name: "COPS", "SONY4".
_ELEMENT = "(?:Ag|Al|Ba|Br|Ca|Cl|Cu|Fe|Hg|Li|Mg|Mn|Na|Pb|Si|Zn|[CFHIKNOPS])"
_COMPOUND = (
    rf"(?=[A-Z\d]{{0,9}}[A-Z][a-z])(?!NaN\b)(?:{_ELEMENT}\d{{0,2}}){{2,9}}"
    rf"|(?=[A-Z]{{1,3}}\d{{1,2}}[A-Z])[CHNKOPS]\d{{0,2}}(?:[CHNKOPS]\d{{0,2}}){{2,9}}|[CHKNPS]{{2}}O\d"
)


def _numbered_moves(match: re.Match[str]) -> str:
    return f", {match[1]}, {', '.join(map(_move, match[2].split()))}"


def _move(written: str) -> str:
    move = written.rstrip("+#")
    end = _CHESS_SIGNS.get(written[len(move) :], "")
    if move in _CASTLING:
        return _CASTLING[move] + end
    words = (
        _PIECES.get(sign) or _CHESS_SIGNS.get(sign) or (sign if sign.isdigit() else spelled(sign)) for sign in move
    )
    return " ".join(words) + end


def _math(written: str) -> str:
    def read(match: re.Match[str]) -> str:
        power, token = match["power"] or match["digit"], match[0]
        if power:
            words = _POWERS.get(power) or f"to the power of {_math(power)}"
        elif match["over"]:
            words = "over"
        elif token.isalpha():
            words = token if len(token) > 2 else spelled(token)
        else:
            words = _SIGNS[token] if token in _SIGNS else _COMMANDS[token[1:]]
        return f" {words} "

    return _MATH.sub(read, written)


CHESS: tuple[Rule, ...] = (
    # With a number before them; "Bb7" alone may be a chord, "Nd4" a gene, "Ba2+" an ion, and "Re2" a reply.
    rule(rf"(?<![\w.,-])(\d{{1,3}})\.(?:\.\.)?\s?({MOVE}(?:\s{MOVE})?)", _numbered_moves),
)
MATH: tuple[Rule, ...] = (
    rule(rf"\b(?:{_COMPOUND})\b", lambda match: re.sub(r"[A-Z][a-z]?", lambda m: f" {spelled(m[0])} ", match[0])),
    rule(r"\\\((.{1,300}?)\\\)", lambda match: _math(match[1])),
    rule(
        # After "US", "5" and before a comma, it is money.
        rf"(?<![\w$])(\$\$?)(?=[A-Za-z\\(-])((?:{_COMMAND}|{_LETTERS}|[-\d^+*/=<>_(){{}},. ])+)(?<!\s)\1(?!\w)",
        lambda match: _math(match[2]),
    ),
    rule(_COMMAND, lambda match: f" {_COMMANDS[match[1]]} "),  # of a formula that is cut
    rule(r"\\(?![A-Za-z\d])", ""),  # before signs, as in Markdown: "\*"
)
