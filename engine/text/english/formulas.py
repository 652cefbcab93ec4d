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
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi"
    "|omega"
)
_MATH_SIGNS = {
    "+": "plus", "-": "minus", "*": "times", "/": "over", "=": "equals", "<": "less than", ">": "greater than",
    "_": "sub", r"\times": "times", r"\cdot": "times", r"\infty": "infinity", r"\leq": "less than or equal to",
    r"\geq": "greater than or equal to", r"\neq": "not equal to", r"\pm": "plus or minus",
}  # fmt: skip
_POWERS = {"2": "squared", "3": "cubed"}
_COMMAND = rf"\\(?:{_GREEK}|times|cdot|infty|leq|geq|neq|pm)(?![A-Za-z])"
_LETTER = r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])"
_MATH = re.compile(rf"\^(?:\{{([^{{}}]*)\}}|(\w))|{_COMMAND}|[A-Za-z]|[-+*/=<>_]|[{{}}]")


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
        exponent, token = match[1] or match[2], match[0]
        if exponent:
            return f" {_POWERS.get(exponent) or f'to the power of {_math(exponent)}'} "
        if token in _MATH_SIGNS:
            return f" {_MATH_SIGNS[token]} "
        return f" {spelled(token) if token.isalpha() else token.strip('{}').lstrip(chr(92))} "

    return _MATH.sub(read, written)


CHESS: tuple[Rule, ...] = (
    # With a number before them; "Bb7" alone may be a chord, "Nd4" a gene, "Ba2+" an ion, and "Re2" a reply.
    rule(rf"(?<![\w.,-])(\d{{1,3}})\.(?:\.\.)?\s?({MOVE}(?:\s{MOVE})?)", _numbered_moves),
)
MATH: tuple[Rule, ...] = (
    rule(
        # After "US", "5" and before a comma, it is money.
        rf"(?<!\w)\$(?=[A-Za-z\\({{-])((?:{_COMMAND}|{_LETTER}|[-\d^+*/=<>_(){{}},. ])+)(?<!\s)\$(?!\w)",
        lambda match: _math(match[1]),
    ),
)
