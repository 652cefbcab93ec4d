"""Comparison of a text with its transcript."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.proof import compare as comparison
from studio.proof.compare import compare
from tests.support.linear import assert_linear, repeated

TEXT = "The quick brown fox jumps."


def marked(text: str, heard: str, language: str = "") -> list[str]:
    return [text[start:end] for start, end in compare(text, heard, language).marks]


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        (TEXT, "the QUICK, brown fox -- jumps"),
        ("It costs $19.50 at 7:45.", "It costs nineteen dollars and fifty cents at seven forty-five."),
        ("We met on March 3rd, 2027.", "we met on march third 2027"),
        ("Don’t say good-bye to Mr. Naïve.", "Dont say goodbye to mister naive"),
        ("[whisper] Come here. [pause:0.5] Now!", "Come here now."),
        ("今日はいい天気です。", "今日は いい天気です"),
        ("Straße und Bäume", "strasse und baume"),
        ("…", ""),
    ],
)
def test_only_words_are_compared(text: str, heard: str) -> None:
    assert compare(text, heard).word_error == 0
    assert compare(text, heard).marks == ()


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("The shop opens at 7:30.", "The shop opens at 730."),
        ("The shop opens at 7:30.", "The shop opens at 7.30."),
        ("He owes 1,234 pounds.", "he owes 1234 pounds"),
        ("Some 10 000 people came.", "Some 10,000 people came."),
        ("Call 555-1234 now.", "Call 5551234 now."),
        ("Call 555-1234 now.", "call 555 1234 now"),
        ("The road is 5 km long.", "The road is five kilometers long."),
        ("It is No. 5 of 9.", "it is number five of nine"),
        ("King Henry VIII had six wives.", "King Henry the 8th had six wives."),
        ("She lives in Elm St. now.", "She lives in Elm Street now."),
        ("We met on July 4, 2026.", "We met on July 4th, 2026."),
        ("OK, come in.", "Okay, come in."),
        ("Mr. and Mrs. Brown met Ms. Lee.", "Mr and Mrs Brown met Miss Lee."),
        ("It opens at 9:00 a.m. here.", "It opens at 9 a.m. here."),
        (
            "In 2007 it had 1,234 pages.",
            "In two thousand and seven it had a thousand two hundred and thirty-four pages.",
        ),
        ("Add 1 1/2 cups of it.", "Add 1½ cups of it."),
        ("Add 1 1/2 cups of it.", "Add one and a half cups of it."),
        ("Call (212) 555-0147 now.", "Call 212-555-0147 now."),
        ("Call 212-555-0147 now.", "Call 2125550147 now."),
        ("Call 020 7946 0958.", "call zero two zero seven nine four six zero nine five eight"),
        ("He works 24/7 since 9/11.", "He works 24-7 since 9-11."),
        ("Rock 'n' roll, alright.", "Rock and roll, all right."),
        ("I'm gonna go towards it, Mum. Hmm.", "I'm going to go toward it, Mom. Mm."),
        (
            "He realised that the colours of the theatre were grey.",
            "He realized that the colors of the theater were gray.",
        ),
    ],
)
def test_english_numbers_units_and_abbreviations_are_equal_in_any_spelling(text: str, heard: str) -> None:
    assert compare(text, heard, "en").marks == compare(heard, text, "en").marks == ()
    assert compare(text, heard, "en").word_error == compare(heard, text, "en").word_error == 0


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("The shop opens at 7:30.", "The shop opens at 7:40."),
        ("It takes 10-15 minutes.", "It takes 10 minutes."),
        ("It takes 3.5 hours.", "It takes 35 hours."),
        ("The road is 5 km long.", "The road is 5 miles long."),
        ("The road is 5 km long.", "The road is 50 km long."),
        ("Call 212-555-0147 now.", "Call 212-555-0174 now."),
        ("It took 9/10 of it.", "It took 9-10 of it."),
        ("Five hundred and her cat.", "Five hundred her cat."),
    ],
)
def test_other_english_numbers_and_units_are_marked(text: str, heard: str) -> None:
    assert compare(text, heard, "en").marks
    assert compare(text, heard, "en").word_error > 0


def test_english_transcript_may_lack_hesitations() -> None:
    assert marked("Um, no. Uh, I do.", "No. I do.", "en") == []
    assert marked("Um, no. Uh, I do.", "No. I die.", "en") == ["do."]
    assert marked("Er ging um acht.", "ging acht", "") == ["Er", "um"]


def test_marks_before_lines_are_not_words() -> None:
    assert marked("# One\n> Two is # 5", "One. Two is number five.", "en") == []


@pytest.mark.parametrize("language", ["de", "German", ""])
@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("Ich habe drei Äpfel.", "Ich habe 3 Äpfel."),
        ("Es kostet 19,50 € und 5 % mehr.", "es kostet neunzehn Euro fünfzig und 5 Prozent mehr"),
        ("Um 10:30 Uhr kommt der Zug.", "Um zehn Uhr dreißig kommt der Zug."),
        ("Elle a 99 ans et un cœur d’or.", "elle a quatre-vingt-dix-neuf ans et un coeur d'or"),
        ("Wasser kocht bei 100 °C.", "Wasser kocht bei hundert Grad Celsius."),
        ("Il fait 25°C, pas 77 °F.", "il fait vingt-cinq degrés, pas soixante-dix-sept degrés Fahrenheit"),
        ("一九八四年", "1984年"),
    ],
)
def test_numbers_of_other_languages_are_equal_to_words(text: str, heard: str, language: str) -> None:
    assert compare(text, heard, language).word_error == 0
    assert compare(heard, text, language).word_error == 0


@pytest.mark.parametrize(
    ("language", "text", "heard"),
    [
        ("de", "Dr. Au lief z. B. ca. 5 km usw.", "Doktor Au lief zum Beispiel circa 5 Kilometer und so weiter"),
        ("de", "Er lief 5 km.", "er lief fünf Kilometer"),
        ("de", "Ludwig XIV. und Karl V. regierten.", "Ludwig der Vierzehnte und Karl der Fünfte regierten"),
        ("de", "Zoë fährt Citroën.", "Zoe fährt Citroen"),
        ("fr", "M. Hugo vient à 10 h 30, n° 5.", "Monsieur Hugo vient à dix heures trente, numéro 5"),
        ("fr", "Le XXe siècle", "le vingtième siècle"),
        ("es", "El Sr. Gil de EE. UU. vive en el 1.º.", "El señor Gil de Estados Unidos vive en el primero"),
        ("ru", "Это 5 тыс. руб. и т. д.", "Это пять тысяч рублей и так далее"),
        ("tr", "IŞIK İstanbul", "ışık istanbul"),
        ("vi", "Cô ấy hòa", "cô ấy hoà"),
        ("ar", "مُحَمَّدٌ في مدرسة كبيـرة، ٢٥ سنة", "محمد في مدرسه كبيره 25 سنة"),
        ("fa", "می‌خواهم کتاب", "می خواهم كتاب"),
        ("hi", "हिन्दी फ़िल्म १९४७", "हिंदी फिल्म 1947"),
        ("th", "มี ๒๕ คน", "มี25คน"),
        ("ja", "ｶﾞｲﾄﾞ", "ガイド"),
        ("zh", "他看着头发，里面很干净。", "他看著頭髮，裏面很乾淨"),
        ("zh", "她了解反复的借口。", "她瞭解反覆的藉口"),
        ("yue", "佢喺臺灣食麵", "佢喺台湾食面"),
    ],
)  # fmt: skip
def test_forms_of_writing_of_other_languages_are_equal(language: str, text: str, heard: str) -> None:
    assert compare(text, heard, language).marks == compare(heard, text, language).marks == ()


@pytest.mark.parametrize(
    ("language", "text", "heard", "wrong"),
    [
        ("", "かきを食べた。", "かぎを食べた。", ["き"]),
        ("th", "ฉันไปโรงเรียนทุกวัน", "ฉันไปโรงเลียนทุกวัน", ["รี"]),
        ("th", "มา", "ม้า", ["ม"]),
        ("hi", "क्या", "कया", ["क्या"]),
        ("ru", "мой", "мои", ["мой"]),
        ("zh", "头发很长", "頭法很長", ["发"]),
        ("ja", "著者", "着者", ["著"]),
        ("vi", "bán", "bạn", ["bán"]),
        ("de", "schon da", "schön da", ["schon"]),
        ("es", "un año", "un ano", ["año"]),
        ("de", "Dr. Müller lief 5 km.", "Herr Müller lief fünf Meter.", ["Dr.", "5", "km."]),
        ("de", "Er ist da.", "Er ist dabei.", ["da."]),
        ("de", "Um 5 kam er.", "um 5 kamen er", ["kam"]),
        ("fr", "En 1990 la mer", "en 1990 lacs mer", ["la"]),
        ("", "He is taller than I.", "he is taller than me", ["I."]),
        ("", "In 1990 the man met J. Smith.", "in 1990 they man met John Smith", ["the", "J."]),
    ],
)
def test_other_words_of_other_languages_are_marked(language: str, text: str, heard: str, wrong: list[str]) -> None:
    assert marked(text, heard, language) == wrong


def test_long_token_takes_linear_time() -> None:
    assert_linear(lambda text: compare(text, text, "de"), repeated('(")a.'), 16_000)


def test_differing_words_are_read_once_with_each_number_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    spoken = comparison._spoken
    monkeypatch.setattr(comparison, "_spoken", lambda text: read.append(text) or spoken(text))
    assert marked("Two or 4 of us", "two or 5 of us", "en") == ["4"]
    assert read == ["or 4 of", "or 5 of", "Two or 4 of us", "two or 5 of us"]


def test_number_is_not_equal_to_another_number_or_to_a_missing_sentence() -> None:
    assert compare("Ich habe 3 Äpfel.", "Ich habe 4 Äpfel.", "de").word_error == 0.25
    assert compare("Ich habe drei Äpfel.", "Ich habe Äpfel.", "de").word_error == 0.25
    assert compare("Ich habe drei Äpfel und mag keine Birnen.", "Ich habe 3.", "de").word_error > 0.5
    assert compare("I have three apples.", "I have 4 apples.", "en").word_error == 0.25


@pytest.mark.parametrize(
    ("heard", "wrong", "error"),
    [
        ("The quick brown box jumps.", ["fox"], 0.2),
        ("The brown fox jumps.", ["quick"], 0.2),
        ("The quick brown fox jumps over.", ["jumps."], 0.2),
        ("Oh the quick brown fox jumps.", ["The"], 0.2),
        ("The slow red fox jumps.", ["quick", "brown"], 0.4),
        ("", ["The", "quick", "brown", "fox", "jumps."], 1.0),
    ],
)
def test_differing_words_are_marked(heard: str, wrong: list[str], error: float) -> None:
    assert marked(TEXT, heard) == wrong
    assert compare(TEXT, heard).word_error == pytest.approx(error)


def test_single_character_is_marked_in_scripts_without_spaces() -> None:
    assert marked("今日はいい天気です。", "昨日はいい天気です") == ["今"]


def test_number_is_marked_as_a_whole_despite_tags() -> None:
    assert marked("[sad] He owes 1,200 pounds.", "He owes one thousand three hundred pounds.", "en") == ["1,200"]


def test_words_heard_for_a_text_without_words_are_errors() -> None:
    assert compare("[laugh]", "Ha ha.").word_error == 1
    assert compare("[laugh]", "").word_error == 0


@settings(max_examples=30)
@given(st.lists(st.sampled_from("a b c".split())), st.lists(st.sampled_from("a b c".split())))
def test_error_is_zero_only_for_equal_words(said: list[str], heard: list[str]) -> None:
    found = compare(" ".join(said), " ".join(heard))
    assert (found.word_error == 0) == ("".join(said) == "".join(heard))
    assert all(0 <= start < end <= len(" ".join(said)) for start, end in found.marks)


def test_different_texts_need_little_memory() -> None:
    """Of languages whose letters count as words, texts have as many words as characters."""
    tracemalloc.start()
    try:
        found = compare("天" * 2_000, "日" * 2_000, "zh")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.word_error == 1
    assert peak < 32 << 20
