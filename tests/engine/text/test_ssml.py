"""SSML: what is markup and what is text, as a whole and in pieces, and its place in the plan of segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import GrowingText, Segmentation
from engine.text.ssml import SsmlReader, plain_text

AZURE = """<?xml version="1.0"?>
<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xmlns:mstts="https://www.w3.org/2001/mstts">
  <voice name="en-US-JennyNeural">
    <mstts:express-as style="cheerful">
      <prosody rate="+10%">Salt &amp; pepper.</prosody><prosody rate="slow">And
      <emphasis level="strong">oil</emphasis>!</prosody>
    </mstts:express-as>
  </voice>
  <!-- <break time="9s"/> -->
  <voice name="en-US-GuyNeural">Yes.<bookmark mark="end"/></voice>
</speak>
"""

_MARKUP = st.sampled_from(
    "<speak> </speak> <p> </p> <s> <break~time='1s'/> <break ~time='1s' /> > < </ <sub~alias='a~b'> </sub> <emphasis>"
    " </emphasis> <mark~name='a'/> <voice~name='x'> <x~y='z'> <!-- --> <? &amp; &lt; ~ \n~ \n\n~ word . it's \""
    " [pause:1] <|speaker:1|>".split(" ")
).map(lambda part: part.replace("~", " "))
_SOUP = st.lists(_MARKUP, max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('One <break time="1s"/> two.', "One [pause:1s] two."),
        ("One<BREAK time='500ms' />two<break time=“1.5s”></break>.", "One[pause:500ms]two[pause:1.5s]."),
        ('<break/><break strength="x-weak"/><break strength="bad"/>', "[pause:0.75][pause:0.25][pause:0.75]"),
        ('<break strength="strong" time="+2s"/>One<break strength="none"/>two', "[pause:2s]One two"),
        ('The <sub alias="World Wide Web">WWW</sub>, <sub alias="it&apos;s">its</sub>', "The World Wide Web, it's"),
        ('<phoneme alphabet="ipa" ph="təˈmeɪtoʊ">Tomato</phoneme>, <lang xml:lang="de">ja</lang>', "Tomato, ja"),
        ('<say-as interpret-as="date">1/2</say-as> <prosody rate="x">un<emphasis>do</emphasis></prosody>', "1/2 undo"),
        ('<voice name="A">Hi.</voice><voice name="B">Oh <mark name="m"/>no.</voice>', "\nHi. \nOh no. "),
        ('<amazon:effect name="whispered">Hush.</amazon:effect>Now.', "Hush. Now."),
        ("<speak>Hi.</speak>\n<speak>Ho &lt; &#39;x&#39;.</speak>", "Hi.\nHo <  'x'."),
        ("<speak>a < b, <3, <me@example.com>, &no;, <b and c></speak>", "a < b, <3, <me@example.com>, &no;, <b and c>"),
        ('<speak>A\n b\n\n<audio src="x.mp3">c</audio><w role="x">d</w></speak>', "A b\n\n c d"),
    ],
)  # fmt: skip
def test_markup_is_removed(text: str, plain: str) -> None:
    assert plain_text(text) == plain
    assert plain_text(plain) == plain


def test_document_has_paragraphs_and_sentences() -> None:
    made = plain_text("<speak>\n <p>\n  <s>One</s>\n  <s>Two</s>\n </p>\n <p>Three\n</p></speak>")
    assert [segment.line_ends for segment in Segmentation(8).plan(made)] == [1, 2, 2]
    assert [segment.text for segment in Segmentation(20).plan(plain_text(AZURE))] == [
        "Salt & pepper.",
        "And oil!",
        "Yes.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a < b && c > d, x<y>z, <3, vector<int> v; a<b",
        "<user@example.com> <https://example.com> <|speaker:1|> &amp; &lt;",
        "<p>One</p> <s>two</s> H<sub>2</sub>O <mark>x</mark> <audio src='x.mp3'></audio> <a href='d'>e</a>",
        "<voice>1</voice <lang> <mark id='x'> <breaker> <break time='1s <break 5> <sub alias='x'>y",
        "A <sigh> and [sigh] and (sighing) <break",
        "  \n",
        "Its <speak",
    ],
)  # fmt: skip
def test_other_text_is_unchanged(text: str) -> None:
    assert plain_text(text) == text
    assert plain_text(f"One {text}") == f"One {text}"


@given(st.text(st.characters(exclude_characters="<")))
def test_text_without_tags_is_unchanged(text: str) -> None:
    assert plain_text(text) == text


@given(_SOUP | st.text(), st.lists(st.integers(0, 9)))
def test_pieces_are_read_as_the_whole(text: str, sizes: list[int]) -> None:
    reader, made, rest = SsmlReader(), "", text
    for size in sizes:
        made += reader.read(rest[:size])
        rest = rest[size:]
    assert made + reader.read(rest) + reader.finish() == plain_text(text)


def test_breaks_are_pauses_of_segments() -> None:
    segments = Segmentation().plan(plain_text('One.<break time="250ms"/>Two.'))
    assert [(each.text, each.silence_after) for each in segments] == [("One.", 0.25), ("Two.", 0.0)]
    with pytest.raises(InvalidText, match="at most 60 seconds"):
        Segmentation().plan(plain_text('One.<break time="61s"/>'))


def test_tags_of_a_growing_text_may_be_divided() -> None:
    text, taken = GrowingText(), []
    written = '<speak>Salt &amp; pepper. <break time="500ms"/>The <sub alias="World Wide Web">WWW</sub> ends</speak>'
    for letter in written:
        text.append(letter)
        taken += text.take()
    assert [segment.text for segment in taken] == ["Salt & pepper."], "as soon as it is complete"
    text.finish()
    taken += text.take()
    assert [(segment.text, segment.silence_before) for segment in taken] == [
        ("Salt & pepper.", 0.0),
        ("The World Wide Web ends", 0.5),
    ]
    assert len(text) == len(written)
    assert text.over


@pytest.mark.parametrize(
    "text",
    [
        "Salt & pepper, I <3 them. We go on. The end.",
        "If a < b, x <mark and y <break it, stop. We go on. The end.",
        "A <voice to hear. We go on. The end.",
        "H<sub>2, that is water. We go on. The end.",
        "<speak to me, please. We go on. The end.",
        "<speak>If a < b, I <3 you. We go on. The end.",
        "<speak>A <b and c <!- of it. We go on. The end.",
    ],
)
def test_signs_that_begin_no_markup_do_not_delay_a_growing_text(text: str) -> None:
    growing, taken = GrowingText(), ""
    for letter in text:
        growing.append(letter)
        taken += " ".join(segment.text for segment in growing.take())
    assert taken.endswith("We go on.")


def test_only_spoken_words_are_checked() -> None:
    checked: list[str] = []
    text = GrowingText(check=checked.append)
    text.append('One <phoneme ph="təˈ')
    text.append('meɪtoʊ">tomato</phoneme>.')
    assert checked == ["One ", "tomato."]
