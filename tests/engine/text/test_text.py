"""Text normalisation, segmentation without loss, speaker turns as in the S2 reference, and time estimates."""

import json
import math
import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import InvalidText
from engine.text import (
    Segment,
    Segmentation,
    clean_text,
    cut_text,
    frame_budget,
    frame_minimum,
    speaking_time,
    splitting,
)
from engine.text.cuts import fitting_spans, split_to_fit, written_size
from engine.text.english.phrases import TIGHT, cut_cost
from engine.text.english.pronunciation import spoken_size
from engine.text.segmentation import batch_turns, split_speaker_turns
from engine.text.sentences import sentences, with_style
from engine.text.tags import MAX_STYLE, STYLE_TAG, has_words, is_speakable, style_tag
from engine.text.timing import least_time
from tests.paths import MINIATURE

FIXTURES = MINIATURE
GOLDEN = json.loads((FIXTURES / "turns_golden.json").read_text("utf-8"))


def split_segments(text: str, max_bytes: int = splitting.MAX_BYTES, max_sentences: int | None = None) -> list[str]:
    return [segment for segment, _ in splitting.split_segments(text, max_bytes, max_sentences, written_size)]


# Pieces for generated texts, so that marks, tags and scripts often stand next to each other.
PIECES = (
    *(
        "Hello",
        "the",
        "Dr.",
        "e.g.",
        "U.S.",
        "3.14",
        "No. 5",
        "1.",
        "it's",
        "don't",
        "https://example.com/a.b?c=d ",
    ),
    *(
        ". ",
        "! ",
        "? ",
        "... ",
        "…",
        ", ",
        "; ",
        ": ",
        " — ",
        " - ",
        "--",
        '"',
        "“",
        "”",
        "’",
        "(",
        ")",
        "[",
        "]",
    ),
    *(
        "\n",
        "\n\n",
        " ",
        "  ",
        "\t",
        "\u00a0",
        "\u3000",
        "\u200b",
        "\ufeff",
        "\u202e",
        "\x00",
        "\ud800",
        "\ue000",
    ),
    *("[whisper]", "[laugh] ", "<|speaker:0|>", "<|speaker:12|>", "<|im_end|>", "<|", "|>"),
    *(
        "漢字",
        "。",
        "、",
        "「",
        "」",
        "かな",
        "カー",
        "مرحبا",
        "؟ ",
        "नमस्ते",
        "। ",
        "สวัสดี",
        "မြန်မာ",
        "။",
        "안녕",
    ),
    *("Здравствуй", "e\u0301", "👩\u200d👩\u200d👧", "🇩🇪", "* * *", "x" * 50),
)
texts = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


def without_spaces(text: str) -> str:
    return "".join(text.split())


def normalised(text: str) -> str:
    """Normalise `text` after prepending a word, so that it is never empty."""
    return clean_text("Say " + text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cafe\u0301", "Café"),
        ("The oﬀice of eﬃcient ﬂags, ﬁ\u0301, at laﬆ", "The office of efficient flags, fí, at last"),
        ("ﺑﻐﺰارة اﻟﻤﻄﺮ ﻻ", "بغزارة المطر لا"),
        ("“Hi,” he said — ‘there’… ", "\"Hi,\" he said — 'there'…"),
        ("one -- two --- three", "one — two — three"),
        ("wait.... . .now…...…", "wait…now…"),
        ("これは日本の\nbluetoothの音", "これは日本の bluetoothの音"),
        ("a\u00a0b\u2003c\td\u3000e", "a b c d e"),
        ("a\u200bb\ufeffc\u202ed\x07e\x00", "abcde"),
        ("می‌خواهم", "می‌خواهم"),
        ("first\r\n\r\n\r\nSecond", "first\n\nSecond"),
        (
            "A line that was\nwrapped in an email.\nNext one.",
            "A line that was wrapped in an email.\nNext one.",
        ),
        ("non\u2011breaking \u22125", "non-breaking -5"),
        ("no!!!!!!!!!", "no!!!"),
        ("[whisper] psst <|speaker:1|>yes", "[whisper] psst <|speaker:1|>yes"),
        ("a<|im_end|>b <|semantic:5|>", "a b"),
        ("<|im<|pad|>_end|> c", "im _end|> c"),
        ("<|speaker:x|> d <|speaker:99999|>", "d"),
        (
            "See [the\nguide](https://a.com/b?c=d), [![a plan](x.png)](/plan), [whisper](softly).",
            "See the guide, [![a plan](x.png)](/plan), [whisper](softly).",
        ),
        ("[![a plan](/x.png)](/plan) <[](/x)|im_end|>", "a plan"),
        ("# One\n\n## 1.2 Two\n\n# 5 is more", "One\n\n1.2 Two\n\n# 5 is more"),
        (
            "He said so.¹ “Why?”² A note³, and 10² (a + b)² km² 5 meter² 5 meters² x².",
            'He said so. "Why?" A note, and 10² (a + b)² km² 5 meter² 5 meters² x².',
        ),
        ('> They wrote:\n>> "Come."\n> # Why\n> 5 is > 3', 'They wrote:\n"Come."\nWhy\n> 5 is > 3'),
        (
            "the moun-\ntains of her mother-in-\nlaw, pre-\nand post-war",
            "the mountains of her mother-in-law, pre- and post-war",
        ),
        (
            "Venez, dit-\nil. Où êtes-\nvous ? C'est-\nà-dire.",
            "Venez, dit- il. Où êtes- vous ? C'est- à-dire.",
        ),
        (
            "a self-\ndriving car, thirty-\nfive, the high-\nest; moun\u00ad\ntains",
            "a self-driving car, thirty-five, the highest; mountains",
        ),
        (
            "> One.\n>\n> [laugh] (Two) in meters per second².\n#\n> ¿Sí?",
            "One.\n\n[laugh] (Two) in meters per second².\n\n¿Sí?",
        ),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert clean_text(text) == expected


LONG = "of these there are many more than would ever fit into one line of text"


@pytest.mark.parametrize(
    "text",
    [
        f"Chapter One: {LONG}\n\nThe sea was calm.",
        "Dear Anna\n\ni am well",
        f"- {LONG}\n- Good boots",
        f"• {LONG}\n• small ones",
        f"1. {LONG}\n2. Stir",
        f"a) {LONG}\nb) and these",
        f"These are needed: {LONG}\n1. Eggs and milk",
    ],
)
def test_paragraphs_and_list_items_are_not_joined(text: str) -> None:
    assert clean_text(text) == text
    assert Segmentation(1000, max_sentences=1).plan(text)[0].text == text.split("\n")[0]


@pytest.mark.parametrize("text", [f"- {LONG}\nAnd on they go", f"{LONG} on March\n5. We left", "Dear Anna\ni am well"])
def test_wrapped_lines_are_joined(text: str) -> None:
    assert clean_text(text) == text.replace("\n", " ")


def test_wrapped_lines_without_spaces_are_joined_without_one() -> None:
    full = "これは長い行で、ここで折り返されているので、次の行に続きます。そして"
    assert clean_text(f"{full}\nさらに続く。\n次の段落\nです。") == f"{full}さらに続く。\n次の段落\nです。"
    assert clean_text(f"{full}は\nEnglish") == f"{full}は English"


@pytest.mark.parametrize("text", ["", "  \n\t", "…!?", "— * — *", "😀🎉", "\x00\u200b", "<|speaker:0|>", "<|im_end|>"])
def test_text_without_words_is_rejected(text: str) -> None:
    with pytest.raises(InvalidText, match=r"no words to say: .+\.$"):
        clean_text(text)
    with pytest.raises(InvalidText):
        Segmentation().plan(text)


@pytest.mark.parametrize("text", ["42", "%", "[sigh]", "語", "ok", "½", "€", "ﷺ"])
def test_any_pronounceable_text_is_accepted(text: str) -> None:
    assert clean_text(text) == text


@given(texts)
@example("...…")
@example("[a\n b](/c) <[](/x)|im_end|>")
@example("a\n##\nb >\nc")
@example("ab-\ncd¹")
@example("[" * 5 + "a" + "](/b)" * 5)
@example(". \n. \n.")
def test_normalise_is_idempotent_and_removes_control_tokens(text: str) -> None:
    once = normalised(text)
    assert clean_text(once) == once
    assert once == unicodedata.normalize("NFC", once)
    assert "<|" not in regex.sub(r"<\|speaker:[0-9]{1,4}\|>", "", once)
    assert not regex.search(r"[^\P{C}\n\u200c\u200d\u0600-\u0605\u06dd\u08e2\p{Cn}]", once)
    assert "  " not in once


# Sentences separated by |.
@pytest.mark.parametrize(
    "marked",
    [
        "Dr. Smith met Mrs. Jones at 3.14 St. James Lane.| J. R. R. Tolkien wrote it in the U.S. and left.",
        'He said: "Stop that at once!" and then he left.| "Where to, my dear?" she asked him (softly).',
        "See https://example.com/a.b?c=d for the details.| It is on p. 12 or in Fig. 3 of the book, no?",
        "I said no.| Then we left… and nobody ever came back!| Really?| Yes, we all did, for all I know.",
        "1. The first item is this one here.|\n2. The second item is this one here.",
        "We meet at 5 p.m. on Jan. 3 in the old hall.| It was I who asked for the new one then.",
        "He came at 9 p.m. on Monday and left at 10 p.m.| She left at 11 a.m. Eastern time.| 'It was I.'| They knew.",
        "Call ext. 5 or Tel. 555-1234, Apt. 5 on Main Road.| See Chap. 5 and Pt. 2 in Bldg. 7, Ste. 200.",
        "Fig. A shows it.| Vol. II begins.| See Ch. IV.| He ate a fig.| A man left.| Wait a sec.| I'm here.",
        "On Mon. Jan 5 we met.| On Sun. May 3 we sat.| May I go?| We saw the Sun.| It shone on Sat.| Then it rained.",
        "Am 5. August kam er.| Der 3. Mai war kalt.| Im 19. Jahrhundert, in der 5. Klasse, zum 2. Mal.",
        "Berlin, 5. August 2020.| Er kam am 5.| Dann ging er.| Es sind 5.| Leute kamen.| Seinem 50. Geburtstag.",
        "I am 5.| He is 7.| There were 5.| May I go?| It cost 3.| Nobody has 12.| Mary has 3.",
        "He is from the U.S.| The rest of us live in the U.S. Virgin Islands.| Ask A. A. Milne, or J. I. Packer.",
        "so they type without capitals.| like this all day.| and nobody seems to mind it.",
        "你好，今天天气很好！|我们一起去公园吧？|「好的，走吧。」|他这样说了一句话。",
        "你好。\u3099你们好吧。|我们走。",
        '你是谁？|"我是你的朋友。"|他笑了。|"好。"|他说："走吧！"|我们走。',
        '" Bonjour. "| Puis il dit : " Venez ! "| Elle vint.| " Oui. " dit-il.',
        "« Bonjour. »| Puis il dit : « Venez ! »| Elle vint.| « Oui. » dit-il.",
        '"One.| Two."| He left.| A 5" nail.| "Three."| "Four?" he said.',
        "これは最初の文です。|これは次の文ですか？|はい、そうですよね。",
        "مرحبا بكم جميعا هنا.| كيف حالك اليوم يا صديقي؟| أنا بخير، شكرا لك۔",
        "नमस्ते, आप सब कैसे हैं।| मैं बिल्कुल ठीक हूँ॥| और आप सब कैसे हैं?",
        "မင်္ဂလာပါ ခင်ဗျာ။|နေကောင်းလား ခင်ဗျာ။",
        "ሰላም ለሁላችሁም ይሁን።| እንዴት ነህ ወንድሜ፧| ደህና ነኝ አንተስ።",
        "Բարեւ ձեզ բոլորիդ։| Ինչպե՞ս եք դուք այսօր։",
        "გამარჯობა ყველას აქ.| როგორ ხარ დღეს შენ?| კარგად ვარ, მადლობა.",
        "Здравствуйте, как дела?| Хорошо, спасибо вам!| А у вас?",
        "네, 그래요 정말로요.| 안녕히 가세요 여러분.",
        "¿Cómo estás, amigo mío?| ¡Muy bien, gracias a ti!",
        "Pack these.| (1) Tea.| 2. Milk for all.| B.) Salt.| • 3. Eggs.| IV. The end.| How many?| 5.| So few?| A.",
        "It is 20 °C. outside.| Turn left at 30 km/h.| Then stop.| It was you and I.| Did he go?| He can't.| Al can.",
        "Ring Tel. (030) 1234.| From Sept. '21 on, est. 1950, max. 5 of us.| It took 5 min.| 3 left.| It took 3 sec.",
        "Who wrote it?| J. K. Rowling did.| Who read it?| A. Hill.| How many?| 5.",
        "Er wohnt in der Hauptstr. 5.| Sie wohnt in der Bahnhofstr.| Da ist es.",
        "It holds.[12]| So they say.[3][4]| He wrote [see above. And below] so.| The end.",
        '"Come in!" - said he.| "Really?" – asked she.| – No! – cried he.| – So be it.',
        "add 2 tbsp. sugar and 1 lb. flour.| then stir it.",
        "Sra. Gil y la Dra. Paz son el Lic. Mora.| Véase pág. 3.| Он видел проф. Белова на ул. Мира.| Это рис. 5.",
        "Jeg vet det.| Han er trøtt, og det er jeg glad av.| Det er ens.| Hun kom.",
        "Son las 3 p. m.| ¿Viene?| En EE. UU. vive en la Av. Sur.| Sí.",
        "Ո՞վ է նա:| Իմ ընկերը:| Այո:",
        "Πού πας;| Στο σπίτι.| Γιατί;",
        "他看了《醒醒吧！孩子》和书。|增长３．５％。|好。",
        "Add 1 lb. 4 oz. of it.| It took 1 hr. 30 min.| It is 3 ft.| The box is 5 lb.| Two left.",
        "In 1990 Ft. Knox stood.| It is 5 ft.| Go.",
        "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. O-O Nf6.| Take 12.| Bob won.",
        "It was new in 1995.| Nf3 was played.",
        "1 pkg. yeast, 2 doz. eggs, 2 c. milk and 1 pt. cream.| mix it in 2 c. warm milk.| stir.",
        "I saw Matt.| 5 left.| Read Matt. 5:3 and 1 Cor. 13:4-8.| I met Dan.| She has an M.D.| Both came.",
        "Take Hwy. 101 to 16 Park Ave. NW, Salem.| Then Sunset Blvd.| No, on Mon. 5 Jan. or Tues. 1/6 we met.",
        "Det. Insp. Brown met Pfc. Jones and Atty. Gen. Holt.| They left.",
        'He is "the Snake", a.k.a. "The Boss", incl. A1.| Go.',
        "„Ich komme.“| Dann ging er.| »Komm!«, rief er.| »Nein.«| Sie ging.| Er sagte: „So.“",
        "Am 24. 12. 2023 um 10 Uhr.| Es kostet 5 Mio. Euro, s. Abs. 3 und Abt. IV.| Es sind 5 Mio.| Das ist viel.",
        "Dr. med. Au und Dr. rer. nat. Ott von der Au & Co. KG kamen.| Er ging 5 m.| Dann kam er 44 v. Chr. an.",
        "Il vécut au Ier s. av. J.-C. à Rome.| Il a marché 3 h.| Puis il dort.| Voir Bd. Voltaire.",
        "El Arq. Paz vio el cap. 3.| O Exmo. Sr. Costa e o Eng. Lima, no séc. XX.| Bem.",
        "Il Sig. Rossi e il geom. Bini, a pag. 12 e cap. 3.| Fine.",
        "Ks. Jan, św. Piotr, inż. Kot i mjr. Lis, m.in. Anna, o godz. 15.30 w ust. 2.| W 1989 r.| Potem nic.",
        "Это стоит 5 тыс. Рублей 20 млн. Евро и т. д.| Потом, см. гл. 3, оз. Сева.| Это было в 1989 г.| Потом нет.",
        "Sn. Kaya ve Yrd. Doç. Ak geldi.| TP. Huế và PGS. TS. An.| Vâng.",
        'ذهب د. أحمد مع أ. د. علي.| ثم عاد.| המחיר 5 ש"ח.| יקר.',
        "ในปี พ.ศ. 2567 ดร. สมชายมาครับ.| เขาไป",
        "डॉ. शर्मा और प्रो. वर्मा और जे. के. राव आए।| अच्छा।",
        "「おはよう。」と彼は言った。|「行こう！」って、笑った。|「うん。」|ところが、雨だ。",
        '"안녕하세요." 라고 했습니다.| "가자!"라고 했다.| 네.| 2024. 5. 12 에 갔다.',
        "He met Dr. Phil.| His friend TJ.| He drew his Sig.| The man, an NP.| She left for Wichita, KS.| No.",
        "Bake at 350 degrees F.| Grease a pan.| Add 4 Tbs. (1/2 stick) butter and 1 lb. (450 g) flour.| (See below.)",
        "She moved to Davis, CA.| Then the FT.| But he had MS.| They know MS. SMITH.| MR. HILL does.",
        "Game 5 v. Boston, 410 U.S. 113, 120 n. 5.| Add 2 c. Flour.| Anne d. 1547 d. Wolf.",
        "Wait for it.| [laugh] It is funny.| [whisper] Do not tell them all.",
    ],
)
def test_sentences_are_split_at_their_ends(marked: str) -> None:
    text = marked.replace("|", "")
    lines = [found.span() for found in regex.finditer(r".+", text)]
    found = [text[start:end].strip() for line in lines for start, end in sentences(text, line)]
    assert found == [part.strip() for part in marked.split("|")]


@given(texts, st.integers(1, 400), st.none() | st.integers(1, 3))
@example("[whisper]\n* * *\n", 5, 1)
@example("a" * 30 + "[b]" * 30, 7, None)
def test_segments_keep_all_normalised_text(text: str, max_bytes: int, max_sentences: int | None) -> None:
    text = normalised(text)
    segments = split_segments(text, max_bytes, max_sentences)
    assert without_spaces("".join(segments)) == without_spaces(text)
    assert all(segment.strip() == segment != "" for segment in segments)
    assert "\n" not in "".join(segments)


@given(st.text(max_size=300), st.integers(1, 50))
@example("\x1f\U0001f600 a", 1)
def test_segments_keep_all_raw_text(text: str, max_bytes: int) -> None:
    assert without_spaces("".join(split_segments(text, max_bytes))) == without_spaces(text)


@pytest.mark.parametrize(
    ("max_sentences", "segments"),
    [
        (None, ["Is it mine? Yes, Mr. Gray! [low] Take it, please."]),
        (2, ["Is it mine? Yes, Mr. Gray!", "[low] Take it, please."]),
        (1, ["Is it mine?", "Yes, Mr. Gray!", "[low] Take it, please."]),
    ],
)
def test_segment_has_at_most_max_sentences(max_sentences: int | None, segments: list[str]) -> None:
    text = "Is it mine? Yes, Mr. Gray! [low] Take it, please."
    assert split_segments(text, 300, max_sentences) == segments
    long = "Is it mine, " * 8 + "or not? No."
    parts = split_segments(long, 60, max_sentences)
    assert " ".join(parts) == long
    assert parts[-1].endswith("No.")
    assert (parts[-1] == "No.") == (max_sentences == 1)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        (
            "Please call 555-867-5309 or pay $1,249.99 by 12/31/2025.",
            ["Please call 555-867-5309", "or pay $1,249.99", "by 12/31/2025."],
        ),
        ("<|speaker:1|>You have won $1,249,377.99.", ["<|speaker:1|>You have won", "<|speaker:1|>$1,249,377.99."]),
        (
            "Win likes {{t_ax_m_ey_t_ow}} soup and {{p_ax_t_ey_t_ow}} salad, too.",
            ["Win likes {{t_ax_m_ey_t_ow}} soup and {{p_ax_t_ey_t_ow}} salad, too."],
        ),
        ("She moved to the old house near the river.", ["She moved to the old house near the river."]),
    ],
)
def test_segments_fit_as_they_are_read(text: str, segments: list[str]) -> None:
    plan = Segmentation(max_bytes=72, max_sentences=1, size=spoken_size).plan
    assert [segment.text for segment in plan(text)] == segments


def test_numbers_stay_with_their_neighbours() -> None:
    assert split_segments("All of us paid him $5 million in cash and left", 40) == [
        "All of us paid him $5 million in cash", "and left"
    ]  # fmt: skip
    assert split_segments("In the year they had on Dec 31 nothing at all", 40) == [
        "In the year", "they had on Dec 31 nothing at all"
    ]  # fmt: skip


def test_titles_stay_with_their_names() -> None:
    assert split_segments("In the hall of that town we met Prof. Lee of the old school in the city", 40) == [
        "In the hall of that town we met", "Prof. Lee of the old school in the city"
    ]  # fmt: skip


def test_explicit_pauses_replace_sentence_pauses() -> None:
    plan = Segmentation(max_bytes=40, max_sentences=1, sentence_pause=0.25).plan
    paused = plan("[pause:1]One. (Two!) [pause:2] Three\nFour? Five.")
    assert [(s.text, s.silence_before, s.silence_after) for s in paused] == [
        ("One.", 1, 0), ("(Two!)", 0.25, 2), ("Three", 0, 0), ("Four?", 0.25, 0), ("Five.", 0.25, 0)
    ]  # fmt: skip
    joined = [*plan("One. [pause:0]Two. Three."), *plan(" [pause:0] Four.", Segment("Three."))]
    assert [segment.silence_before for segment in joined] == [0, 0, 0.25, 0]
    long = plan("A sentence of so many words that it is cut in its middle, and goes on. Another.")
    assert [segment.silence_before for segment in long] == [0, 0, 0, 0.25]
    assert Segmentation().plan("One. Two.") == [Segment("One. Two.")]


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("Milk\nEggs\nBread", [0, 0.25, 0.25]),
        ("Dear Anna,\n\nThank you.\n\nYours,\nBen", [0, 0.5, 0.5, 0.25]),
        ("The title\n\n***\n\nIt was late. It was dark.", [0, 0.5, 0.25]),
        ("We went home and\nslept. Good night.", [0, 0.25]),  # a wrapped line
        ("One\n\n[pause:1]\n\nTwo", [0, 0]),
        ("<|speaker:0|>Well, yes<|speaker:1|>No\n\n<|speaker:0|>Why", [0, 0.25, 0.25]),
    ],
)
def test_lines_and_paragraphs_have_pauses(text: str, pauses: list[float]) -> None:
    plan = Segmentation(max_bytes=40, max_sentences=1, sentence_pause=0.25).plan
    assert [segment.silence_before for segment in plan(text)] == pauses


def test_speaker_turns_are_split_by_max_sentences() -> None:
    text = "<|speaker:0|>Hi! How are you?<|speaker:1|>Fine."
    assert [segment.text for segment in Segmentation(max_sentences=1).plan(text)] == [
        "<|speaker:0|>Hi!", "<|speaker:0|>How are you?", "<|speaker:1|>Fine."
    ]  # fmt: skip
    assert len(Segmentation().plan(text)) == 1


WORDS = (
    "a",
    "be",
    "sea",
    "bridge",
    "naïve",
    "кот",
    "it's",
    "3.14",
    "end.",
    "so,",
    "[low]",
    "Yes!",
    "(no)",
    "co-op",
)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=80), st.integers(20, 120))
def test_segments_keep_words_and_tags_whole_within_max_bytes(words: list[str], max_bytes: int) -> None:
    text = " ".join([*words, "end"])
    segments = split_segments(text, max_bytes)
    assert " ".join(segments) == text
    chained = [2 * max_bytes if "[low] [low]" in segment else max_bytes for segment in segments]
    assert all(len(segment.encode()) <= limit for segment, limit in zip(segments, chained, strict=True))
    assert not any(segment.endswith("[low]") for segment in segments)


@given(st.text(st.sampled_from("漢字かなสวัสดีครับကျေးဇူး。、「」ー"), min_size=1, max_size=150), st.integers(20, 90))
@example("คัััููー", 20)
@example("คัူူူ、ူ", 20)
@example("「คัူူ、ူ", 20)
def test_scripts_without_spaces_are_cut_between_graphemes(text: str, max_bytes: int) -> None:
    segments = split_segments(text + "字", max_bytes)
    ends = {found.end() for found in regex.finditer(r"\X", "".join(segments))}
    position = 0
    for segment in segments:
        position += len(segment)
        assert position in ends
    if not regex.search(r"[。、「」ー]{2}", text):
        for before, segment in pairwise(segments):
            # With an opening bracket and many marks they may fill a segment.
            last, first = regex.search(r"(?:「\p{M}*+)*\X\Z", before), regex.match(r"\X", segment)
            assert last
            assert first
            assert segment[0] not in "。、」ー" or len((last[0] + first[0]).encode()) > max_bytes


def test_thai_phrases_are_kept_whole() -> None:
    assert split_segments("สวัสดี ผมชื่อสมชาย", 40) == ["สวัสดี", "ผมชื่อสมชาย"]


def test_closing_marks_stay_with_the_preceding_character() -> None:
    for pair in ("カー", "語」", "あ、"):
        segments = split_segments(pair * 12, 21)
        assert "".join(segments) == pair * 12
        assert all(segment[0] == pair[0] for segment in segments)


def test_text_is_cut_after_em_dashes() -> None:
    assert split_segments("over—under—over—under—", 15) == ["over—under—", "over—under—"]


def test_overlong_word_is_cut_between_graphemes() -> None:
    word = "e\u0323\u0301" * 200
    segments = split_segments(word, 60)
    assert "".join(segments) == word
    assert all(len(segment.encode()) <= 60 for segment in segments)
    assert all(segment[0] == "e" for segment in segments)
    letters = ["e\u0323\u0301", "too", "e\u0323\u0301", "too"]
    assert list(split_to_fit(" ".join(letters), lambda piece: piece == "too")) == letters
    for text in ("e\u0323\u0301  ", "  e\u0323\u0301"):
        assert list(fitting_spans(text, (0, 5), lambda _: False)) == [(0, 5)], "no span has only spaces"


def test_long_sentences_are_cut_at_clauses_into_similar_parts() -> None:
    text = "When the rain had stopped at last, we took the path down to the river, and we sat there for hours."
    assert split_segments(text, 60) == [
        "When the rain had stopped at last,",
        "we took the path down to the river,",
        "and we sat there for hours.",
    ]
    sizes = [len(segment) for segment in split_segments("word " * 100, 130)]
    assert max(sizes) <= 130
    assert min(sizes) > 60


@pytest.mark.parametrize(
    "text",
    [
        "The road wound through the dark forest for so many miles | that the children had begun to fall silent.",
        "Shares of the electric car maker fell by nearly nine percent | in early trading on Wall Street on Monday.",
        "The committee will present a new budget for the next year | before the end of the month in which it was due.",
        "We met the professor and his wife Eleanor Whitaker-Jones again | on Dec 31, 1999, at the station.",
        "They said that they hadn't ever seen the company's very old office | because it is closed.",
        "Le gouvernement a annoncé que la réforme du système | de retraite entrerait en vigueur cette année.",
    ],
)
def test_long_sentences_are_cut_before_phrases(text: str) -> None:
    assert split_segments(text.replace("| ", ""), 72) == text.split(" | ")


def test_cut_costs_depend_on_function_words() -> None:
    costs = [
        cut_cost("house", "which"), cut_cost("house", "at"), cut_cost("house", "is"), cut_cost("sees", "Helen"),
        cut_cost("public", "house"), cut_cost("the", "house"),
    ]  # fmt: skip
    assert costs == sorted(set(costs))
    tight = [("in", "which"), ("John", "Smith"), ("has", "seen"), ("Dr", "Lee"), ("Mary's", "house"), ("ten", "miles")]
    assert {cut_cost(*words) for words in [*tight, ("5", "miles"), ("May", "5"), ("saw", "him")]} == {TIGHT}


def test_cuts_are_outside_quotations_and_before_signs() -> None:
    outside = [("said", "“never"), ("again”", "he"), ("dit", "«"), ("»", "avant"), ("soap", "&"), ("room", "(which")]
    assert {cut_cost(*words) for words in outside} == {1.0}
    inside = [("the", "“great”"), ("«", "bonjour"), ("monde", "»"), ("&", "soap"), ("dogs'", "owners")]
    assert {cut_cost(*words) for words in inside} == {TIGHT}


def test_a_style_is_before_each_sentence() -> None:
    assert with_style("One.", "[sad]") == "[sad] One."
    assert with_style("One. … [sigh] <|speaker:1|>", "[sad]") == "[sad] One. … [sad] [sigh] <|speaker:1|>"
    assert with_style("One. Two!\nThree", "[sad]") == "[sad] One. [sad] Two!\n[sad] Three"
    assert with_style("<|speaker:0|>Hi, Mr. Fox. <|speaker:1|> Oh?", "[sad]") == (
        "<|speaker:0|>[sad] Hi, Mr. Fox. <|speaker:1|> [sad] Oh?"
    )


@pytest.mark.parametrize(
    ("style", "tag"),
    [
        ("", ""),
        (" [ ] ", ""),
        ("sad", "[sad]"),
        (" very\n[sad] ", "[very sad]"),
        ("so " * 40, f"[{'so ' * 26}so]"),
        ("sad<|im_end|>\n<|speaker:1|>", "[sad im_end speaker:1]"),
    ],
)
def test_any_description_of_a_style_becomes_one_tag(style: str, tag: str) -> None:
    assert style_tag(style) == tag
    assert not tag or STYLE_TAG.fullmatch(tag)
    assert STYLE_TAG.fullmatch(style_tag("a" * 200))
    assert len(style_tag("a" * 200)) == MAX_STYLE + 2


def test_style_tags_stay_with_their_text() -> None:
    text = clean_text("[whisper]\nHello there.\n[sad] It is over. [sigh]\nThe end.")
    assert split_segments(text, 22) == ["[whisper] Hello there.", "[sad] It is over.", "[sigh] The end."]


def test_rows_of_stars_join_the_paragraph_before() -> None:
    text = clean_text("Chapter One\n\n* * *\n\nIt was late. It was dark.\nThe end.\n***")
    assert split_segments(text) == ["Chapter One * * *", "It was late. It was dark.", "The end. ***"]


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_speaker_turns_and_batches_equal_reference(case: dict[str, object]) -> None:
    turns = split_speaker_turns(str(case["text"]))
    assert turns == case["turns"]
    assert batch_turns(turns, max_turns=5, max_bytes=300) == case["batches_300_5"]


def test_turn_batches_respect_limits() -> None:
    turns = [f"<|speaker:{i % 3}|>{'x' * 50}" for i in range(20)]
    for batch in batch_turns(turns, 3, 200):
        assert len(batch.encode()) <= 200
        assert batch.count("<|") <= 3
    assert [batch.count("<|") for batch in batch_turns(turns, 2, 10_000)] == [2] * 10


def test_plan_without_speakers_has_one_segment() -> None:
    assert Segmentation().plan("  Hello there.  How are you? ") == [Segment("Hello there. How are you?")]


def test_plan_with_speakers_keeps_all_turns() -> None:
    text = "Intro first. <|speaker:1|> Hi. <|speaker:0|>\nOh, hi!\n<|speaker:2|> <|speaker:1|>Bye"
    assert Segmentation(max_turns=2).plan(text) == [
        Segment("<|speaker:0|>Intro first.\n<|speaker:1|>Hi."),
        Segment("<|speaker:0|>Oh, hi!\n<|speaker:1|>Bye"),
    ]


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<|speaker:0|>Hi.<|speaker:1|>…<|speaker:0|>Bye.", [("<|speaker:0|>Hi.\n<|speaker:0|>Bye.", 0, 0)]),
        ("<|speaker:0|>Hi.<|speaker:1|>😀[pause:1]Bye.", [("<|speaker:0|>Hi.", 0, 1), ("<|speaker:1|>Bye.", 0, 0)]),
        (";<|speaker:1|>Hi.", [("<|speaker:1|>Hi.", 0, 0)]),
        ("😀🎉" * 100 + "\nHi.", [("Hi.", 0, 0)]),
        ("[pause:1]Hi.[pause:1]…[pause:1]Bye.", [("Hi.", 1, 2), ("Bye.", 0, 0)]),
    ],
)
def test_segments_and_turns_without_anything_to_speak_are_dropped(
    text: str, segments: list[tuple[str, float, float]]
) -> None:
    assert [(each.text, each.silence_before, each.silence_after) for each in Segmentation().plan(text)] == segments


def test_tags_alone_are_spoken_only_by_models_that_have_them() -> None:
    text = "Hello. [pause:1] [sigh] [pause:2] Bye.<|speaker:1|>[laugh]<|speaker:2|>No."
    assert [segment.text for segment in Segmentation().plan(text)] == [
        "Hello.", "[sigh]", "<|speaker:0|>Bye.\n<|speaker:1|>[laugh]\n<|speaker:2|>No."
    ]  # fmt: skip
    assert Segmentation(is_spoken=has_words).plan(text) == [
        Segment("Hello.", silence_after=3),
        Segment("<|speaker:0|>Bye.\n<|speaker:2|>No."),
    ]


def test_a_model_that_speaks_one_voice_a_turn_gets_a_segment_for_each_turn() -> None:
    text = "<|speaker:0|>Hi.<|speaker:1|>Oh, hi! And you?<|speaker:0|>Well.[pause:1]Bye.<|speaker:1|>Bye."
    alone, batched = Segmentation(max_turns=1).plan(text), Segmentation().plan(text)
    assert [segment.speakers for segment in alone] == [(0,), (1,), (0,), (0,), (1,)]
    assert [segment.speakers for segment in batched] == [(0, 1, 0), (0, 1)]


def test_long_turns_are_cut_into_tagged_segments() -> None:
    text = "<|speaker:7|>" + "This is a sentence of some length. " * 8 + "<|speaker:1|>Short."
    segments = Segmentation(max_bytes=100).plan(text)
    assert len(segments) == 5
    assert all(len(segment.text.encode()) <= 100 for segment in segments)
    assert [segment.speakers for segment in segments[:4]] == [(7,)] * 4
    assert all(segment.text.startswith("<|speaker:7|>This") for segment in segments[:4])
    assert segments[-1] == Segment("<|speaker:1|>Short.")


@given(texts, st.integers(30, 300), st.integers(1, 5))
def test_plan_keeps_all_words_and_speakers(text: str, max_bytes: int, max_turns: int) -> None:
    def spoken(text: str) -> str:
        return "".join(filter(is_speakable, regex.sub(r"<\|speaker:\d+\|>", "", text)))

    segments = Segmentation(max_bytes, max_turns=max_turns).plan("Say " + text)
    assert spoken("".join(segment.text for segment in segments)) == spoken(normalised(text))
    assert all(spoken(segment.text) for segment in segments)
    tagged = "<|speaker:" in normalised(text)
    assert all(bool(segment.speakers) == tagged for segment in segments)
    assert all(not tagged or segment.text.startswith(f"<|speaker:{segment.speakers[0]}|>") for segment in segments)


@pytest.mark.parametrize(
    ("text", "seconds"),  # when read aloud at an ordinary pace
    [
        ("The morning train was late, so we walked along the river and talked.", 4.2),
        ("Call 555 0199 before 17:30.", 5.0),
        ("The FBI and the BBC paid $1,234,567.89.", 8.0),
        ("今天天气很好，我们一起去公园散步吧。", 4.2),
        ("きょうはてんきがいいので、こうえんへさんぽにいきましょう。", 4.5),
        ("오늘은 날씨가 좋으니까 공원으로 산책하러 가요.", 4.0),
        ("Сегодня хорошая погода, пойдём гулять в парк.", 3.2),
        ("الطقس جميل اليوم، هيا نذهب إلى الحديقة.", 3.2),
        ("आज मौसम अच्छा है, चलो पार्क में टहलने चलते हैं।", 3.3),
        ("วันนี้อากาศดี เราไปเดินเล่นที่สวนกันเถอะ", 3.2),
    ],
)
def test_frame_budget_is_two_to_five_times_the_speaking_time(text: str, seconds: float) -> None:
    frames = frame_budget(text, 20)
    assert 2 * seconds <= frames / 20 <= 5 * seconds
    assert frame_budget(text, 40) == pytest.approx(2 * frames, abs=1)


@pytest.mark.parametrize(
    ("text", "fastest"),  # seconds of a fast reader; a third of it cannot hold the words
    [
        ("The morning train was late, so we walked along the river and talked.", 3.0),
        ("今天天气很好，我们一起去公园散步吧。", 2.1),
        ("きょうはてんきがいいので、こうえんへさんぽにいきましょう。", 2.9),
        ("오늘은 날씨가 좋으니까 공원으로 산책하러 가요.", 2.3),
        ("Сегодня хорошая погода, пойдём гулять в парк.", 2.2),
        ("الطقس جميل اليوم، هيا نذهب إلى الحديقة.", 2.3),
        ("आज मौसम अच्छा है, चलो पार्क में टहलने चलते हैं।", 2.2),
        ("วันนี้อากาศดี เราไปเดินเล่นที่สวนกันเถอะ", 2.3),
    ],
)
def test_least_time_is_below_a_fast_reading_and_above_a_third_of_it(text: str, fastest: float) -> None:
    assert fastest / 3 < least_time(text) < 0.9 * fastest
    assert frame_minimum(text, 20) == math.ceil(20 * least_time(text))


@pytest.mark.parametrize(
    ("text", "fastest"),  # seconds: short words, numbers, and silent or lengthened text
    [
        ("I", 0.1),
        ("Yes.", 0.2),
        ("OK!", 0.3),
        ("1,000,000", 0.4),
        ("1000000000000", 0.5),
        ("$3.50", 0.6),
        ("NASA", 0.4),
        ("?!... — 👍 ***", 0.01),
        ("[whispering very softly, close to the microphone] Hi.", 0.1),
        ("<|speaker:0|>Hi.", 0.1),
        ("Nooooooooooooooooooooooooooooooo!", 0.3),
        ("好", 0.15),
        ("はい", 0.2),
        ("네", 0.1),
    ],
)
def test_least_time_is_small_for_short_texts_numbers_and_tags(text: str, fastest: float) -> None:
    assert least_time(text) <= fastest


def test_known_phone_count_replaces_characters_in_least_time() -> None:
    assert least_time("1,000,000", phones=100) == least_time("Any words.", phones=100) == pytest.approx(4.55, abs=0.01)
    assert frame_minimum("Any words.", 20, phones=0) == 0


@given(texts)
def test_least_time_is_at_most_half_of_speaking_time(text: str) -> None:
    text = normalised(text)
    assert 0 <= least_time(text) <= 0.5 * speaking_time(text)


@given(texts, texts)
def test_frame_budget_is_monotonic_in_text(text: str, more: str) -> None:
    text, both = normalised(text), f"{normalised(text)} {normalised(more)}"
    assert 1.5 * 21.5 <= frame_budget(text, 21.5) <= frame_budget(both, 21.5)
    budgets = [speaking_time(" ".join(both.split()[:words])) for words in range(len(both.split()))]
    assert all(a <= b + 1e-9 for a, b in pairwise(budgets))


def test_segment_of_acronyms_has_frames_to_spell_them_slowly() -> None:
    assert frame_budget("QXZ " * 60, 10) >= 10 * 2.2 * 0.3 * 180


def test_speaking_time_of_capitals_is_less_than_twice_that_of_words() -> None:
    """They may be acronyms, which are spelled; of these, a line takes half as long as a slow reader needs."""
    headline = "THE MORNING TRAIN WAS LATE, SO WE WALKED ALONG THE RIVER AND TALKED. "
    assert speaking_time(headline * 9) < 1.7 * speaking_time(headline.lower() * 9)
    assert speaking_time("FBI") == pytest.approx(0.9)
    assert frame_budget("IBM HP DEC AMD NEC SGI " * 8, 20) > 20 * 0.25 * 17 * 8


@given(st.text("aB, ", max_size=40), st.text("aB, ", max_size=5))
def test_speaking_time_grows_with_each_letter(text: str, more: str) -> None:
    assert speaking_time(text) <= speaking_time(text + more) + 1e-9


PROSE = "The morning train was late. We walked along the river. It was cold, and nobody spoke for a while."


@pytest.mark.parametrize(
    ("share", "kept"),
    [
        (1.0, PROSE),
        (0.53, "The morning train was late. We walked along the river."),
        (0.3, "The morning train was late."),
        (0.42, "The morning train was late. We walked along"),
        (0.0, "The"),
    ],
)
def test_transcript_is_cut_by_share(share: float, kept: str) -> None:
    assert cut_text(PROSE, share) == kept


@given(texts, st.floats(0, 1))
def test_cut_transcript_is_a_non_empty_prefix(text: str, share: float) -> None:
    text = normalised(text)
    kept = cut_text(text, share)
    assert kept
    assert text.startswith(kept)
