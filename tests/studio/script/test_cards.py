"""Parsing of texts into cards without losing a word."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import Segmentation
from engine.text.tags import is_speakable
from storage.scripts.limits import MAX_CARD_TEXT
from studio.script import Card, Script, parse
from studio.script.formats.document import PARAGRAPH_PAUSE, SECTION_PAUSE, SENTENCE_PAUSE
from tests.studio.script.words import WORDS, plain_texts, words


def texts(script: Script) -> list[str]:
    return [card.text for card in script.cards]


def spoken_words(script: Script) -> list[str]:
    return [word for card in script.cards for word in words(card.text)]


@settings(deadline=None, max_examples=50)
@given(plain_texts)
def test_cards_keep_all_words_of_the_text(text: str) -> None:
    for name in ("a.txt", "a.md", ""):
        script = parse(text, name)
        assert spoken_words(script) == words(text)
        assert script.omitted == ()


@settings(deadline=None, max_examples=50)
@given(plain_texts)
def test_every_card_can_be_spoken_and_has_a_bounded_length(text: str) -> None:
    for card in parse(text, "a.txt").cards:
        assert Segmentation().plan(card.text)
        assert len(card.text) <= 320, "the length of a card, plus half for a long sentence, plus punctuation"
        assert "\n" not in card.text
        assert 0 <= card.pause <= SECTION_PAUSE


def test_sentences_are_grouped_and_never_cut() -> None:
    sentence = "This is a sentence of some fifty characters, you see. "
    assert texts(parse(sentence * 7)) == [(sentence * 3).strip(), (sentence * 3).strip(), sentence.strip()]
    long = "A sentence " + "that goes on " * 18 + "ends."
    assert 200 < len(long) < 300
    assert texts(parse(f"Short. {long} {long} Short.")) == ["Short.", long, long, "Short."]


def test_huge_sentences_are_cut_at_clauses() -> None:
    clause = "and a clause of some forty characters here"
    script = parse(", ".join([clause] * 12) + ".")
    assert all(len(card.text) <= 200 for card in script.cards)
    assert all(card.text.endswith(("here,", "here.")) for card in script.cards)


def test_scripts_without_spaces_are_measured_by_time() -> None:
    script = parse("名前はまだ無い。どこで生れたか頓と見当がつかぬ。" * 8)
    assert all(len(card.text) <= 80 for card in script.cards)
    assert "".join(texts(script)) == "名前はまだ無い。どこで生れたか頓と見当がつかぬ。" * 8


def test_paragraphs_and_scene_breaks_have_longer_pauses() -> None:
    script = parse("One. Two. Three. Four.\n\nFive.\n\n* * *\n\nSix.")
    assert [(card.text, card.pause) for card in script.cards] == [
        ("One. Two. Three.", SENTENCE_PAUSE),
        ("Four.", PARAGRAPH_PAUSE),
        ("Five.", SECTION_PAUSE),
        ("Six.", PARAGRAPH_PAUSE),
    ]


@pytest.mark.parametrize("separator", ["＊　＊　＊", "◇", "☆★☆", "⁂", "*", "#", "~*~", "———"])
def test_ornaments_alone_on_a_line_are_scene_breaks(separator: str) -> None:
    for name in ("story.txt", "story.md") if separator not in "*#" else ("story.txt",):  # which are marks of Markdown
        script = parse(f"One.\n\n{separator}\n\nTwo.", name)
        pauses = [(card.text, card.pause) for card in script.cards]
        assert pauses == [("One.", SECTION_PAUSE), ("Two.", PARAGRAPH_PAUSE)]


def test_wrapped_lines_are_one_paragraph() -> None:
    wrapped = "This letter was wrapped by a program that breaks lines at\nsome column, which nobody wants to hear."
    assert texts(parse(wrapped, "letter.txt")) == [wrapped.replace("\n", " ")]


def test_marks_of_quotations_are_not_read() -> None:
    assert texts(parse("Ben wrote:\n\n> One\n> line.\n>\n> Two.\n\n###\n\nThree.", "mail.txt")) == [
        "Ben wrote:",
        "One line.",
        "Two.",
        "Three.",
    ]


def test_paragraph_without_words_joins_a_neighbour() -> None:
    assert texts(parse("🎉🎉\n\nHello.\n\n🎉\n\n—")) == ["🎉🎉 Hello. 🎉 —"]
    with pytest.raises(InvalidText, match="no words"):
        parse("🎉\n\n***\n")


def test_heading_without_words_begins_the_chapter_of_what_follows() -> None:
    script = parse("# 🎉\n\nHello.\n\n# 🎈\n\n🎉\n\nBye.\n\n—\n\n# 🎊", "a.md")
    assert [(card.text, card.chapter) for card in script.cards] == [("🎉 Hello.", "🎉"), ("🎈 🎉 Bye. —", "🎈")]
    script = parse("# 🎉\n\n## One\n\nAnn: Yes.\n\n# 🎈\n\nBen: No.\n\nAnn: Oh.", "a.md")
    assert [(card.text, card.speaker, card.chapter) for card in script.cards] == [
        ("🎉 One", None, "One"), ("Yes.", "Ann", None), ("🎈 No.", "Ben", "🎈"), ("Oh.", "Ann", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Hello.\n\n{}", "{} Hello.", "Hello {} you.", "{}\n\nHello.", "{}\n\nHello. {}\n\nBye. {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("filling", ["…\n" * 3_000, "–" * 6_000, "🎉 " * 3_000, "a" + "\u0301" * 9_000, "ᄀ" * 6_000])
def test_endless_text_without_words_or_spaces_fits_cards(text: str, filling: str) -> None:
    script = parse(text.replace("{}", filling), "a.txt")
    assert all(is_speakable(card.text) and len(card.text) <= MAX_CARD_TEXT for card in script.cards)
    assert [word for word in spoken_words(script) if word.isascii()] == words(text)


def test_bidirectional_marks_and_joined_emoji_are_kept() -> None:
    text = "\u200fשלום \u2067עולם\u2069. 👩‍👩‍👧 नमस्ते\u200d."
    assert texts(parse(text)) == [text]


def test_characters_that_databases_reject_are_removed() -> None:
    assert texts(parse("A\0b \ud800c\ufeff \x1bd.")) == ["Ab c d."]


DIALOGUE = """Anna: Good morning! How are you?
Ben: Fine. And
you?

She laughed.

ANNA B.: Never better: at 12:30, see https://example.org.
李明：你好。
"""


def test_dialogue_lines_name_their_speakers() -> None:
    assert [(card.speaker, card.text) for card in parse(DIALOGUE).cards] == [
        ("Anna", "Good morning! How are you?"),
        ("Ben", "Fine. And you?"),
        (None, "She laughed."),
        ("ANNA B.", "Never better: at 12:30, see https://example.org."),
        ("李明", "你好。"),
    ]
    assert parse(DIALOGUE).speakers == ("Anna", "Ben", "ANNA B.", "李明")


def test_speaker_in_small_and_capital_letters_is_the_same() -> None:
    script = parse("Anna: Hello.\nBEN: Hi.\nANNA: How are you?\nBen: Fine.")
    assert [card.speaker for card in script.cards] == ["Anna", "BEN", "Anna", "BEN"]
    one, other = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    assert parse(f"{one}: Hello.\nBen: Hi.\n{other}: How are you?").speakers == (one, "Ben")


def test_other_dialogue_styles() -> None:
    bracketed = parse("[Anna] Hello.\n\n[Ben]: [laughs] Hi.\n\n[whisper] Who is there?\n\n[Anna] Me.")
    assert [(card.speaker, card.text) for card in bracketed.cards] == [
        ("Anna", "Hello."),
        ("Ben", "[laughs] Hi."),
        (None, "[whisper] Who is there?"),
        ("Anna", "Me."),
    ]
    play = parse("ANNA:\nHello there.\nHow are you?\n\nBEN:\nFine.\n\nANNA:\nGood.")
    assert [(card.speaker, card.text) for card in play.cards] == [
        ("ANNA", "Hello there."),
        ("ANNA", "How are you?"),
        ("BEN", "Fine."),
        ("ANNA", "Good."),
    ]
    markdown = parse("# Talk\n\n**Anna:** Hello *there*.\n\n**Ben:** Hi.\n\n**Anna:** Bye.", "talk.md")
    assert [(card.speaker, card.text) for card in markdown.cards] == [
        (None, "Talk"),
        ("Anna", "Hello there."),
        ("Ben", "Hi."),
        ("Anna", "Bye."),
    ]
    directed = parse(
        "KING (rising): Well?\nQUEEN [aside]: Ah.\nQUEEN (V.O. / cont'd): Oh.\nQUEEN (speed: 2): Quick.\n"
        "KING (30):\nNo.\nQUEEN (laughing):\nYes.\nKING (sighs):\n"
        "1st Lord: Sire!\nTom & Dick: Yes!\nMan of the Sea: Oh!"
    )
    assert [(card.speaker, card.text) for card in directed.cards] == [
        ("KING", "[rising] Well?"),
        ("QUEEN", "[aside] Ah."),
        ("QUEEN", "Oh."),
        ("QUEEN", "Quick."),
        ("KING", "No."),
        ("QUEEN", "[laughing] Yes."),
        ("KING", "(sighs)"),
        ("1st Lord", "Sire!"),
        ("Tom & Dick", "Yes!"),
        ("Man of the Sea", "Oh!"),
    ]
    told = parse("(Paris, 1890)\nIt rained.\n\n(1)\nThe first thing.")
    assert [card.text for card in told.cards] == ["(Paris, 1890)", "It rained.", "(1)", "The first thing."]
    chat = parse("[12/05/24, 10:32:11 PM] Anna: Hi.\n(00:05) Ben: Hi.\nAnna (10:34): Well?\nBen: See [10:35] it.")
    assert [(card.speaker, card.text) for card in chat.cards] == [
        ("Anna", "Hi."),
        ("Ben", "Hi."),
        ("Anna", "Well?"),
        ("Ben", "See [10:35] it."),
    ]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        (
            "太郎「おはよう。\n寒いね」\n太郎は笑った。\n花子（笑）「うん」「ほんと？」\n\n太郎 『行こう。』\n\n駅。",
            [
                ("太郎", "「おはよう。"),
                ("太郎", "寒いね」"),
                (None, "太郎は笑った。"),
                ("花子", "[笑]「うん」「ほんと？」"),
                ("太郎", "『行こう。』"),
                (None, "駅。"),
            ],
        ),
        ("小明（笑）：你好！\n小红：你好。", [("小明", "[笑]你好！"), ("小红", "你好。")]),
        (
            "问：你好吗？\n答：好。\n问：走？\n答：走。",
            [("问", "你好吗？"), ("答", "好。"), ("问", "走？"), ("答", "走。")],
        ),
        (
            "武道：やあ。\n[笑美] ね。\n武道：うん。\n[笑美] はい。",
            [("武道", "やあ。"), ("笑美", "ね。"), ("武道", "うん。"), ("笑美", "はい。")],
        ),
        (
            "[하울] 안녕.\n[소피] 네.\n[하울] 가.\n[소피] 응.",
            [("하울", "안녕."), ("소피", "네."), ("하울", "가."), ("소피", "응.")],
        ),
        (
            "【太郎】はい。\n［花子］うん。\n【太郎】[笑] ね。",
            [("太郎", "はい。"), ("花子", "うん。"), ("太郎", "[笑] ね。")],
        ),
    ],
)
def test_dialogue_in_east_asian_brackets(text: str, spoken: list[tuple[str | None, str]]) -> None:
    assert [(card.speaker, card.text) for card in parse(text).cards] == spoken


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is no dialogue. It goes on.",
        "There is a house. \n\nNote: it is old.\n\nIt is red.\n\nIt is tall.",
        "see http://example.org\nand HTTP://example.org",
        "12:30 We meet.\n13:15 We part.",
        "12:30 Lunch: soup.\n13:15 Break: tea.",
        "Ingredients:\n\nFlour and water.\n\nSteps:\n\nMix them.",
        "[sigh] Well.\n[laugh] Yes.",
        "Bread\n\nPrep time: one hour\nServings: eight\n\nIngredients:\nflour\nwater\n\nFor the crust: salt.",
        "Zutaten: Mehl und Wasser.\nZubereitung: Alles mischen.\nHinweis: Warm essen.",
        "From: Anna\nTo: Ben\nSubject: Lunch\n\nHi Ben, shall we?\n\nFrom: Ben\nTo: Anna\nSubject: Lunch\n\nYes.",
        "It is hot.\nNote: Do not touch it.\nIt is cold.\nIt is old.\nNote: Do not drop it.\nIt is new.\nIt is red.",
        "Note (see below): it is old.\n\nIt is red.\n\nIt is tall.",
        "He said: “Hi.”\nShe said: “No.”\nHe said: “Go.”",
        "Er sagte: „Hallo.“\n\nAnna fragte: „Ja?“\n\nEr sagte: „Geh.“",
        "小明说：“你好！”\n小红说：“你好。”\n小明说：“走吧。”",
        "宝玉道：“你好！”\n黛玉笑道：“你好。”\n宝玉道：“走吧。”",
        "太郎は「はい」\n太郎は「いいえ」\n太郎「はい」と言った。\n太郎「いいえ」と言った。",
        "小説「雪国」\n小説「こころ」\n第一章「旅立ち」\nそれは「雪国」\nそれは「夢」",
        "[低声说] 不要。\n[笑] 好。\n[笑] 走。\n[低声说] 好。",
        "[웃음] 네.\n[웃음] 아니요.",
    ],
)
def test_text_that_resembles_dialogue_is_kept(text: str) -> None:
    script = parse(text)
    assert script.speakers == ()
    assert spoken_words(script) == words(text)


def test_labels_before_a_dialogue_are_no_speakers() -> None:
    script = parse(
        "Title: Rain\nDate: May\n\nAnna: It rains.\nBen: No.\nAnna: It does.\n1st Lord: Sire!\n2nd Lord: Oh!"
    )
    assert script.speakers == ("Anna", "Ben", "1st Lord", "2nd Lord")
    assert [card.text for card in script.cards if card.speaker is None] == ["Title: Rain", "Date: May"]
    assert parse("To: I am here.\nAn: So am I.\nNote: They meet.").speakers == ("To", "An", "Note")
    assert parse("Author: Hello.\nReader: Hi.\nAuthor: Well?\nReader: No.").speakers == ("Author", "Reader")
    assert parse("Title: Rain\nAuthor: Ann\n\nIt rains.").speakers == ()


names = st.sampled_from(["Anna", "Ben", "Zoë K.", "Сергей", "李明", "Mary Ann Smith"])
turns = st.lists(st.tuples(names, plain_texts.filter(lambda text: "\n" not in text.strip())), min_size=2, max_size=6)


@settings(deadline=None, max_examples=50)
@given(turns, st.sampled_from(["{}: {}", "[{}] {}"]))
def test_dialogue_keeps_all_words(lines: list[tuple[str, str]], style: str) -> None:
    lines = [(name, " ".join(text.split())) for name, text in lines]
    script = parse("\n\n".join(style.format(*line) for line in lines), "a.txt")
    spoken: dict[str | None, list[str]] = {name: [] for name, _ in lines}
    for card in script.cards:
        spoken[card.speaker] += words(card.text)
    for name in spoken:
        assert spoken[name] == [word for speaker, text in lines if speaker == name for word in words(text)]


PAGE = """---
date: not read
---
# A *tale* of **two** cities #

It was the [best](https://example.com/best "Title") of times,
it was the `worst` of ~~times~~ &amp; so\\* on. <b>Bold</b> 3 < 4 and snake_case_name.[^1]

Setext
------

```python
print("not read")
```

1. First
2. Second
- [x] Done

| Name | Age |
|:-----|----:|
| Ada  | 36  |

> Quoted ![a picture](p.png), <https://example.org>.
<!-- hidden
remark -->
[ref]: https://example.com/ref
"""


def test_markdown_is_read_as_rendered() -> None:
    script = parse(PAGE, "page.md")
    assert texts(script) == [
        "A tale of two cities",
        "It was the best of times, it was the worst of times & so* on. Bold 3 < 4 and snake_case_name.",
        "Setext",
        "1. First",
        "2. Second",
        "Done",
        "Name, Age",
        "Ada, 36",
        "Quoted a picture, https://example.org.",
    ]
    for omitted in ("date: not read", 'print("not read")', "https://example.com/best", "p.png", "hidden", "/ref"):
        assert any(omitted in text for text in script.omitted), omitted


@pytest.mark.parametrize(
    ("lines", "omitted"),
    [
        ("date: not read\nspeakers: Anna; Ben\nlang: en\n", ("---\ndate: not read\nlang: en\n---",)),
        ("speakers: Anna; Ben\n", ()),
    ],
)
def test_front_matter_that_names_speakers(lines: str, omitted: tuple[str, ...]) -> None:
    script = parse(f"---\n{lines}---\n\nAnna: Hello.\n\nBen: Hi.\n", "play.md")
    assert [(card.speaker, card.text) for card in script.cards] == [("Anna", "Hello."), ("Ben", "Hi.")]
    assert script.omitted == omitted


@pytest.mark.parametrize(
    ("lines", "title", "author", "omitted"),
    [
        ("title: Emma: A Novel\nauthor: Jane  Austen \n", "Emma: A Novel", "Jane Austen", False),
        ("author: \"\\\"Weird\\\" Al\"\ntitle: 'It''s'\n", "It's", '"Weird" Al', False),
        ('title: "\\x41"\n', "\\x41", "", False),
        ("title: " + 130 * "x" + "\n", 120 * "x", "", False),
        ("title: |\n  Emma\nauthor:\n  - Jane\n", "", "", True),
        ("author: [Jane, Ann]\n", "", "", True),
    ],
)
def test_title_and_author_of_the_front_matter(lines: str, title: str, author: str, omitted: bool) -> None:
    script = parse(f"---\n{lines}---\n\nHello.\n", "book.md")
    assert (script.title, script.author, bool(script.omitted)) == (title, author, omitted)


def test_html_and_indented_text_within_markdown_are_read() -> None:
    script = parse("Hel<b>lo</b> you<br>there.\n\n<p>A <i>block</i></p>\n\n    Indented.\n\n    More.\n\nBye.", "a.md")
    assert texts(script) == ["Hello you there.", "A block", "Indented.", "More.", "Bye."]


def test_headings_have_longer_pauses() -> None:
    before, heading, after = parse("One.\n\n## Two\n\nThree.", "a.md").cards
    assert before.pause == SECTION_PAUSE > heading.pause > after.pause == PARAGRAPH_PAUSE


def test_ssml_is_read_as_spoken() -> None:
    text = """<speak xml:lang="en">
      <p><s>One <sub alias="two">2</sub> &amp; three.</s> <break time="2s"/></p>
      <p>Four <break strength="weak"/> five.</p>
    </speak>"""
    for name in ("", "a.txt", "a.md"):
        first, second = parse(text, name).cards
        assert (first.text, first.pause, second.text) == ("One two & three.", 2.0, "Four [pause:0.5] five.")
    assert texts(parse('# A\n\nOne.\n\n<break time="1s"/>\n\nTwo *three*.')) == ["A", "One.", "Two three."]


def test_pasted_markdown_is_recognised() -> None:
    assert texts(parse("# Title\n\nText.")) == ["Title", "Text."]
    assert texts(parse("Number #1 is 2 * 3 * 4.")) == ["Number #1 is 2 * 3 * 4."]


decorations = st.sampled_from(
    ["{}", "{}", "{}", "*{}*", "**{}**", "_{}_", "~~{}~~", "`{}`", "[{}](http://a.b/c)", "<em>{}</em>", "***{}***"]
)
starts = st.sampled_from(["", "", "# ", "### ", "- ", "* ", "> ", "> - ", "+ [ ] "])
markdown_lines = st.lists(
    st.tuples(starts, st.lists(st.tuples(decorations, st.sampled_from(WORDS)), min_size=1, max_size=8)),
    min_size=1,
    max_size=10,
)


@settings(deadline=None, max_examples=50)
@given(markdown_lines)
def test_markdown_keeps_all_words(lines: list[tuple[str, list[tuple[str, str]]]]) -> None:
    page = "\n\n".join(start + " ".join(mark.format(word) for mark, word in line) for start, line in lines)
    script = parse(page, "a.md")
    assert spoken_words(script) == [part for _, line in lines for _, word in line for part in words(word)]
    assert set(script.omitted) <= {"http://a.b/c"}


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet="xy *_`~[](){}<>#|-!\\&;:\n", max_size=200))
def test_arbitrary_markdown_keeps_all_letters(text: str) -> None:
    try:
        script = parse(f"x {text}", "a.md")
    except InvalidText:
        return
    kept = "".join(card.text + (card.speaker or "") for card in script.cards) + "".join(script.omitted)
    assert sorted(letter for letter in kept if letter in "xy") == sorted(
        letter for letter in f"x{text}" if letter in "xy"
    )


@pytest.mark.parametrize(
    "unit", ["<!-- ", "[", "![](", "`a ", "*a ", "_a ", "<a ", "| ", "> ", "a" * 99 + ": ", "  ", "\\", "&", "a b. "]
)
def test_pathological_texts_are_parsed_in_bounded_time(unit: str) -> None:
    text = "# a\n\n" + unit * (10_000 // len(unit)) + " a"
    assert parse(text, "a.md").cards
    assert parse(text, "a.txt").cards


def test_too_long_text_and_too_many_cards_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidText, match="too long"):
        parse("a " * 300_000)
    monkeypatch.setattr("studio.script.cards.MAX_CARDS", 50)
    assert len(parse("Line.\n\n" * 50).cards) == 50
    with pytest.raises(InvalidText, match="cards"):
        parse("Line.\n\n" * 51)


def test_cards_compare_by_value() -> None:
    assert parse("Hello.").cards == (Card("Hello.", None, PARAGRAPH_PAUSE, ends_paragraph=True),)
    assert all(first.text != second.text for first, second in pairwise(parse("One.\n\nTwo.").cards))
