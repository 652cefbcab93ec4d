"""Words of a text, and strategies for texts."""

import regex
from hypothesis import strategies as st

WORDS = (
    *("the", "Then", "we", "reached", "Köln", "naïve", "it’s", "O'Neill", "e.g.", "Dr.", "3.14", "1984", "U.S."),
    *("Привет", "Ωμέγα", "שלום", "مرحبا", "नमस्ते", "สวัสดี", "吾輩は猫である", "こんにちは", "안녕하세요", "x" * 30),
)
MARKS = (".", "!", "?", "…", ",", ";", " –", "。", "？", "،", "؟", ".”", "!)", " 🎉", " 👩‍🚀", "", "", "")
SPACES = (" ", " ", " ", " ", "  ", "\u00a0", "\t", "\n", "\n\n", "\r\n", "\n\n***\n\n", "\n \n\n", "\u2028")

plain_texts = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(MARKS), st.sampled_from(SPACES)), min_size=1, max_size=120
).map(lambda parts: "".join(map("".join, parts)))


def words(text: str) -> list[str]:
    """Return runs of letters, digits and combining marks of any script."""
    return regex.findall(r"[\p{L}\p{N}\p{M}]+", text)
