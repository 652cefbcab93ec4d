"""Reading and writing of subtitles: pauses as timing, readable line breaks, and round trips of all words."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidText
from studio.script import Card, cues, parse, parse_file, progress, to_srt, to_vtt
from studio.script.formats.subtitle_writer import LINE, _width
from tests.studio.script.words import plain_texts, words

SRT = """1
00:00:01,000 --> 00:00:02,500
<i>Hello</i>
there.

2
00:00:03,000 --> 00:00:04,000
♪ ♪

3
00:00:05,250 --> 00:00:06,000 X1:40 X2:600
{\\an8}It was 1984

and cold.

4
0:00:05,500 --> 0:00:07,000
1984
"""

VTT = """\ufeffWEBVTT - A title

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.500 align:start
<v.loud Anna Lee>Hello &amp; <c.x>welcome</c> <00:02.000>all.

NOTE about the next

00:04.000 --> 00:05.000
<v Ben>Hi.
"""


@dataclass(frozen=True)
class Spoken:
    text: str
    pause: float = 0.0
    duration: float | None = 1.0
    speaker: str | None = None
    speed: float = 1.0

    @property
    def seconds(self) -> float | None:
        return None if self.duration is None else self.duration / self.speed


def test_cue_lasts_as_long_as_its_card_at_its_speed() -> None:
    shown = cues([Spoken("One.", 0.5, 3.0, speed=1.5), Spoken("Two.", 0.0, 1.0, speed=0.5)])
    assert [(cue.start, cue.end) for cue in shown] == [(0.0, 2.0), (2.5, 4.5)]


def test_cues_become_cards_and_gaps_become_pauses() -> None:
    script = parse_file(SRT.encode(), "film.srt")
    assert script.cards == (
        Card("Hello there.", None, 2.75),
        Card("It was 1984 and cold.", None, 0.0),
        Card("1984", None, 0.0),
    )
    assert parse(SRT.replace("\n", "\r\n")).cards == script.cards, "pasted subtitles are recognised"


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize("last", ["3", "2", "how many\n3"])
def test_last_cue_may_end_in_a_number(last: str, end: str) -> None:
    text = f"1\n00:00:00,000 --> 00:00:01,000\n7\n\n2\n00:00:02,000 --> 00:00:03,000\n{last}{end}"
    assert [card.text for card in parse(text, "a.srt").cards] == ["7", last.replace("\n", " ")]


def test_webvtt_speakers_and_omitted_blocks() -> None:
    script = parse(VTT, "film.vtt")
    assert [(card.speaker, card.text, card.pause) for card in script.cards] == [
        ("Anna Lee", "Hello & welcome all.", 1.5),
        ("Ben", "Hi.", 0.0),
    ]
    assert script.omitted == ("STYLE\n::cue { color: red }", "NOTE about the next")


def test_dialogue_within_subtitles() -> None:
    text = "1\n00:00:00,000 --> 00:00:01,000\nAnna: Hi.\nBen: Hello.\n\n2\n00:00:02,000 --> 00:00:03,000\nAnna: Bye.\n"
    assert [(card.speaker, card.text, card.pause) for card in parse(text, "a.srt").cards] == [
        ("Anna", "Hi.", 0.0),
        ("Ben", "Hello.", 1.0),
        ("Anna", "Bye.", 0.0),
    ]


@pytest.mark.parametrize("mark", ["- ", "-", "– ", ">> ", ">>"])
def test_marks_of_speaker_changes_may_precede_names(mark: str) -> None:
    cue = "00:00:00,000 --> 00:00:01,000\n{mark}ANNA: Well - hi.\n{mark}[Ben] Bye.\n\n"
    text = cue.replace("{mark}", mark) * 2
    read = [(card.speaker, card.text) for card in parse(text, "a.srt").cards]
    assert read == [("ANNA", "Well - hi."), ("Ben", "Bye.")] * 2
    webvtt = f"WEBVTT\n\n{text.replace(',', '.').replace('>> ', '&gt;&gt; ')}"
    assert [(card.speaker, card.text) for card in parse(webvtt, "a.vtt").cards] == read
    (other,) = parse("00:00:00,000 --> 00:00:01,000\n>> So - Ben: he\n- he left.\n>>\n", "a.srt").cards
    assert other.text == "So - Ben: he - he left."


ROLLING = """WEBVTT
Kind: captions

00:00:00.000 --> 00:00:02.000 align:start
{blank}
good<00:00:00.500><c> morning</c><00:00:01.000><c> all</c>

00:00:02.000 --> 00:00:02.010
good morning all
{blank}

00:00:02.010 --> 00:00:04.000
good morning all
no<00:00:02.500><c> no</c>

00:00:04.000 --> 00:00:04.010
no no
{blank}

00:00:05.010 --> 00:00:07.000
no no
we<00:00:05.500><c> talk</c>
""".replace("{blank}", " ")


def test_lines_of_rolling_captions_are_read_once() -> None:
    script = parse(ROLLING, "talk.en.vtt")
    assert [(card.text, card.pause) for card in script.cards] == [
        ("good morning all", 0.01),
        ("no no", 1.01),
        ("we talk", 0.0),
    ]
    assert script.omitted == ()


def test_captions_that_grow_are_read_once() -> None:
    texts = ["今日は", "今日はいい", "今日はいい天気。", "Well", "Well, so", "Well,\nso it is."]
    file = "WEBVTT\n\n" + "\n\n".join(f"00:0{at}.000 --> 00:0{at}.900\n{text}" for at, text in enumerate(texts))
    assert [(card.text, card.pause) for card in parse(file, "live.vtt").cards] == [
        ("今日はいい天気。", 0.1),
        ("Well, so it is.", 0.0),
    ]
    few = file.replace("Well", "Oh", 1).replace("今日はいい天気", "雨")
    assert len(parse(few, "live.vtt").cards) == 6


def test_repeated_cues_of_other_subtitles_are_kept() -> None:
    times = (f"00:0{second}.000 --> 00:0{second + 1}.000" for second in range(4))
    chorus = "\n\n".join(f"{time}\nLa la" for time in times)
    assert [card.text for card in parse(f"WEBVTT\n\n{chorus}").cards] == ["La la"] * 4


@pytest.mark.parametrize("text", ["no cues here", "1\n00:00:01,000 --> 00:00:02,000\n♪\n"])
def test_files_without_cues_are_rejected(text: str) -> None:
    with pytest.raises(InvalidText, match="subtitles"):
        parse(text, "a.srt")


def test_written_srt_and_vtt_files() -> None:
    assert to_srt([*cues([Spoken("Hello, Anna.", 0.5, 1.25), Spoken("Bye.", 1.0, 3600.0)])]) == (
        "1\n00:00:00,000 --> 00:00:01,250\nHello, Anna.\n\n2\n00:00:01,750 --> 01:00:01,750\nBye.\n\n"
    )
    assert to_vtt(cues([Spoken('"Q" & A <b>', speaker="Anna & Co")])) == (
        'WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n<v Anna &amp; Co>"Q" &amp; A &lt;b&gt;\n\n'
    )


def test_style_tags_and_cards_without_takes_are_not_shown() -> None:
    shown = cues([Spoken("[whisper] Hello [laugh]  you."), Spoken("Missing.", 9.0, None), Spoken("[sigh]")])
    assert [(cue.lines, cue.start, cue.end) for cue in shown] == [
        (("Hello you.",), 0.0, 1.0),
        (("[sigh]",), 1.0, 2.0),
    ]


def test_nothing_is_shown_during_pauses_in_cards() -> None:
    text = "[pause:1] [sad] Sentence one. [pause:20] [sigh] Sentence two. [pause:2][pause:3]"
    shown = cues([Spoken(text, 0.5, 30.0, speed=2.0), Spoken("Next.")])
    assert [(cue.lines, cue.start, cue.end) for cue in shown] == [
        (("Sentence one.",), 0.5, pytest.approx(1.5)),
        (("Sentence two.",), pytest.approx(11.5), pytest.approx(12.5)),
        (("Next.",), 15.5, 16.5),
    ]


@pytest.mark.parametrize("text", ["[pause:4] Hi. [pause:1] You.", "[pause:3] Hi. You.", "Hi. [pause:2.95] You."])
def test_pauses_that_a_take_has_no_time_for_are_ignored(text: str) -> None:
    before, after = Spoken("One two three. [pause:2] Four five six.", duration=6.0), Spoken("[laugh]", duration=2.0)
    shown = cues([before, Spoken(text, duration=3.0, speed=1.5), after])
    assert [cue.end for cue in shown if cue.lines == ("Four five six.",)] == [pytest.approx(6.0)]
    inside = [cue for cue in shown if cue.lines[0] in ("Hi.", "You.", "Hi. You.")]
    assert inside[0].start == pytest.approx(6.0)
    assert inside[-1].end == pytest.approx(8.0)
    assert all(cue.end - cue.start > 0.5 for cue in inside)
    assert (shown[-1].start, shown[-1].end) == (8.0, 10.0)


def test_long_cards_are_split_after_sentences_and_share_their_time() -> None:
    text = "The first sentence is about as long as this one here, more or less. " * 2
    first, second = cues([Spoken(text.strip(), duration=8.0)])
    assert " ".join(first.lines) == " ".join(second.lines) == text[: len(text) // 2].strip()
    assert first.lines == ("The first sentence is about as long", "as this one here, more or less.")
    assert (first.start, first.end, second.end) == (0.0, pytest.approx(4.0, abs=0.1), pytest.approx(8.0))


cards = st.lists(
    st.builds(
        Spoken,
        plain_texts,
        st.integers(0, 3000).map(lambda ms: ms / 1000),
        st.one_of(st.none(), st.integers(500, 30_000).map(lambda ms: ms / 1000)),
        st.sampled_from([None, "Anna", "小明", "<b>"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=50)
@given(cards)
def test_cues_are_readable_ordered_and_keep_every_word(spoken: list[Spoken]) -> None:
    shown = cues(spoken)
    for cue in shown:
        assert 1 <= len(cue.lines) <= 2
        assert all(_width(line) <= LINE and line == line.strip() for line in cue.lines)
        assert cue.start < cue.end
    assert all(first.end <= second.start + 1e-9 for first, second in pairwise(shown))
    expected = "".join(word for card in spoken if card.duration is not None for word in words(card.text))
    # Words of scripts without spaces are split across lines.
    assert "".join(word for cue in shown for line in cue.lines for word in words(line)) == expected


@settings(deadline=None, max_examples=50)
@given(cards.filter(lambda spoken: any(card.duration for card in spoken)))
def test_written_subtitles_round_trip(spoken: list[Spoken]) -> None:
    shown = cues(spoken)
    for written, name in ((to_srt(shown), "a.srt"), (to_vtt(shown), "a.vtt")):
        script = parse(written, name)
        assert script.omitted == ()
        read = [word for card in script.cards for word in words(card.text)]
        assert read == [word for cue in shown for line in cue.lines for word in words(line)]
    voiced = parse(to_vtt(shown), "a.vtt")
    assert set(voiced.speakers) == {cue.speaker for cue in shown} - {None}
    gaps = [round(second.start, 3) - round(first.end, 3) for first, second in pairwise(shown)]
    if len(voiced.cards) == len(shown):
        assert [card.pause for card in voiced.cards[:-1]] == pytest.approx(gaps, abs=2e-3)


def test_progress_estimates_from_the_pace_so_far() -> None:
    none = progress([Spoken("Hello there.", duration=None)] * 2, 0.5)
    assert (none.cards, none.done, none.spoken) == (2, 0, 0.0)
    assert none.wait == pytest.approx(none.left / 2)
    slow = progress([Spoken("Hello there.", duration=3.0), Spoken("Hello there.", duration=None)], 2.0)
    assert (slow.cards, slow.done, slow.spoken) == (2, 1, 3.0)
    assert (slow.left, slow.wait) == (pytest.approx(3.0), pytest.approx(6.0))
    assert progress([], 1.0).left == 0
