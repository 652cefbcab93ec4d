"""Synthesis and reading of the training speech."""

import ctypes.util
import itertools
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the speakers' warps")

from engine.text.english.pronunciation import Lexicon
from tests.training.fortunes import needs_fortunes
from training.speech import lexicon as lexicon_builder
from training.speech import synthesize
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.speech.sentences import (
    fortune_sentences,
    held_out_sentences,
    is_held_out,
    is_simple,
    template_sentences,
    training_sentences,
)
from training.speech.speakers import HELD_OUT_KOKORO, HELD_OUT_TEACHER, SHARES, speakers
from training.work import TrainingError

LEXICON = Lexicon.load(lexicon_builder.LEXICON)
MISSING = [
    name
    for name, there in (
        ("flite", ctypes.util.find_library("flite_cmu_us_kal16")),
        ("festival", shutil.which("festival")),
        ("espeak-ng", ctypes.util.find_library("espeak-ng")),
    )
    if not there
]
needs_synthesizers = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def test_template_sentences_are_pronounceable_and_seeded() -> None:
    made = list(itertools.islice(template_sentences(3), 400))
    assert made == list(itertools.islice(template_sentences(3), 400))
    assert made != list(itertools.islice(template_sentences(4), 400))
    assert len(set(made)) > 350
    assert not [sentence for sentence in made if not LEXICON.phones(sentence) or LEXICON.unpronounceable(sentence)]


@needs_fortunes
def test_held_out_sentences_are_not_in_training_sentences() -> None:
    tests = held_out_sentences(LEXICON, templates=30, fortunes=20)
    assert len([text for text in tests if is_held_out(text)]) == len(tests) >= 30
    assert not set(tests) & set(itertools.islice(training_sentences(1, LEXICON), 5000))


def test_missing_fortunes_are_reported(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="apt-get install fortunes"):
        fortune_sentences(LEXICON, tmp_path)
    (tmp_path / "riddles").write_text("The zzyzx is here.\n%\nThe dog is here.\n\t\t-- Somebody\n")
    assert fortune_sentences(LEXICON, tmp_path) == ("The dog is here.",)


def test_corpus_has_at_least_one_training_shard() -> None:
    assert [synthesize.CorpusSpec(hours=hours).shards for hours in (0.01, 0.15, 0.4, 1.0)] == [1, 1, 1, 3]


@pytest.mark.parametrize(
    ("sentence", "simple"),
    [
        ("The dog is here.", True),
        ("Dogs.", False),
        ("The dog has 3 legs.", False),
        ("Ask Mr. Brown.", False),
        ("The zzyzx is here.", False),
        ("NASA is here.", False),
    ],
)
def test_is_simple_accepts_only_plain_sentences(sentence: str, simple: bool) -> None:
    assert is_simple(sentence, LEXICON) == simple


def test_speakers_are_distinct_and_some_are_held_out() -> None:
    everyone = speakers()
    assert everyone == speakers()
    assert [speaker.id for speaker in everyone] == list(range(len(everyone)))
    assert len(everyone) >= 120
    held_out = [speaker for speaker in everyone if speaker.held_out]
    pitches = [speaker.hertz for speaker in held_out if speaker.engine == "flite"]
    assert len(held_out) == 21
    assert all(speaker.held_out for speaker in everyone if speaker.voice == HELD_OUT_TEACHER)
    assert all(speaker.voice == HELD_OUT_KOKORO for speaker in everyone if HELD_OUT_KOKORO in speaker.voice)
    assert not set(speakers("another")) & set(everyone[1:20])
    assert len(pitches) >= 6
    assert max(pitches) > 2 * min(pitches)
    assert {speaker.engine for speaker in everyone} == set(SHARES)
    assert all(0.82 <= speaker.tract <= 1.22 for speaker in everyone)
    espeak = [speaker for speaker in everyone if speaker.engine == "espeak"]
    assert {speaker.tempo for speaker in espeak} == {1.0}
    assert (espeak[-1].tract, espeak[-1].setting) == (1.0256, 84), "shards of a seed stay the same"


def test_kokoro_is_warped_to_the_pitches_of_men_and_women() -> None:
    unwarped, everyone = speakers()[:203], speakers()
    warped = everyone[len(unwarped) :]
    pitches = [speaker.hertz for speaker in warped]
    assert all(speaker.engine == "kokoro" and speaker.pitch != 1.0 for speaker in warped)
    assert all(speaker.pitch == 1.0 for speaker in unwarped if speaker.engine == "kokoro")
    assert pitches == sorted(pitches)
    assert 70 <= pitches[0] < 75
    assert 210 < pitches[-1] <= 220
    assert all("jm_kumo" in speaker.voice for speaker in warped if speaker.hertz < 140)
    assert not any("jm_kumo" in speaker.voice for speaker in warped if speaker.hertz >= 140)


def test_align_follows_the_teacher_and_fills_other_phones() -> None:
    tokens = "dh ax _ k ae t , g ow z .".split()
    segments = [("pau", 0.1), ("dh", 0.2), ("iy", 0.3), ("k", 0.4), ("ae", 0.5), ("t", 0.6), ("pau", 0.8),
                ("g", 0.9), ("ow", 1.0), ("z", 1.1), ("pau", 1.3)]  # fmt: skip
    times = synthesize.token_starts(tokens, segments)
    assert times == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0, 1.1])


def test_aligned_times_are_monotonic_for_any_segments() -> None:
    rng = random.Random(1)
    tokens = LEXICON.phones("The apple, and the quick brown fox?").split()
    for _ in range(50):
        ends = np.cumsum([rng.uniform(0.02, 0.2) for _ in range(12)]).tolist()
        phones = [rng.choice(["ae", "k", "dh", "pau", "s"]) for _ in range(11)] + ["t"]
        times = synthesize.token_starts(tokens, list(zip(phones, ends, strict=True)))
        assert len(times) == len(tokens)
        assert all(a <= b for a, b in itertools.pairwise(times))
        assert times[-1] <= ends[-1]


def test_trimming_keeps_a_little_silence() -> None:
    samples = np.zeros(3 * SAMPLE_RATE)
    samples[SAMPLE_RATE : 2 * SAMPLE_RATE] = 3000 * np.sin(np.arange(SAMPLE_RATE) / 10)
    short, cut = synthesize.trimmed(samples)
    assert cut == pytest.approx(0.94, abs=0.01)
    assert len(short) / SAMPLE_RATE == pytest.approx(1.18, abs=0.02)
    assert len(synthesize.trimmed(np.zeros(500))[0]) == 0


def test_level_is_normalised_without_clipping() -> None:
    tone = np.sin(np.arange(SAMPLE_RATE) / 7)
    quiet, loud = synthesize.level(tone * 900), synthesize.level(tone * 20000)
    assert np.abs(quiet).max() == pytest.approx(np.abs(loud).max(), rel=0.1)
    click = np.full(1000, 201.0)
    click[0] = 30000.0
    assert np.abs(synthesize.level(click)).max() <= 30000


def test_letter_to_sound_rules_are_learned() -> None:
    spelled = {"b": "b", "d": "d", "g": "g", "k": "k", "s": "s", "t": "t", "a": "ae", "o": "aa", "i": "ih"}
    rng = random.Random(2)
    made = ["".join(rng.choice("bdgkst") + rng.choice("aoi") for _ in range(rng.randint(1, 3))) for _ in range(400)]
    taught = [(word, [spelled[letter] for letter in word]) for word in sorted(set(made))]
    scores = lexicon_builder.learn_alignment(taught)
    aligned = [
        (word, shares) for word, phones in taught if (shares := lexicon_builder.align_letters(word, phones, scores))
    ]
    learned = Lexicon({}, lexicon_builder.learn_letters(aligned))
    assert learned.word("gokitabo") == "g aa k ih t ae b aa"


def test_too_many_phones_for_the_letters_are_not_aligned() -> None:
    assert lexicon_builder.align_letters("a", ["b", "k", "s"], {}) is None


@needs_synthesizers
def test_bundled_lexicon_agrees_with_flite() -> None:
    from training.speech.flite import Flite

    flite = Flite()
    sentences = [text for text in itertools.islice(template_sentences(9), 60) if "close" not in text]
    differing = [
        text
        for text in sentences
        if [phone for phone, _ in flite.say(text, "kal16").segments if phone != "pau"]
        != [token for token in LEXICON.phones(text).split() if token.isalpha()]
    ]
    assert len(differing) <= 3


@pytest.fixture(scope="module")
def renderer() -> synthesize.CorpusRenderer:
    return synthesize.CorpusRenderer()


@needs_synthesizers
def test_every_teacher_renders_and_corpus_reads_it(renderer: synthesize.CorpusRenderer, tmp_path: Path) -> None:
    chosen = {speaker.engine: speaker for speaker in speakers() if speaker.held_out and speaker.engine != "kokoro"}
    jobs = [synthesize.Job("The teacher opened the window.", speaker, True) for speaker in chosen.values()]
    made = list(renderer.render(jobs, random.Random(1)))
    assert {item.job.speaker.engine for item in made} | {"kokoro"} == set(SHARES)
    synthesize._write(tmp_path, 0, made)
    (tmp_path / "speakers.json").write_text("[]")

    read = Corpus.load(tmp_path).of_shard(0)
    for item, utterance in zip(made, read, strict=True):
        assert np.array_equal(item.samples, utterance.audio())
        assert utterance.tokens == LEXICON.phones(utterance.text).split()
        assert len(utterance.times) == len(utterance.tokens)
        assert 0.8 <= utterance.samples / SAMPLE_RATE <= 5.5
        assert utterance.times[-1] <= utterance.samples / SAMPLE_RATE
        assert utterance.test_sentence
        assert not utterance.for_training


@needs_synthesizers
def test_warp_changes_the_pitch(renderer: synthesize.CorpusRenderer) -> None:
    import pyworld

    flite = [speaker for speaker in speakers() if speaker.voice == "rms" and not speaker.breath]
    low, high = min(flite, key=lambda s: s.hertz), max(flite, key=lambda s: s.hertz)
    jobs = [synthesize.Job("Every student followed the river.", speaker, False) for speaker in (low, high)]
    heard = []
    for item in renderer.render(jobs, random.Random(1)):
        f0, _ = pyworld.dio(item.samples.astype(np.float64), SAMPLE_RATE, f0_floor=50.0)
        heard.append(float(np.median(f0[f0 > 0])))
    assert heard == pytest.approx([low.hertz, high.hertz], rel=0.1)


def test_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="No finished shard"):
        Corpus.load(tmp_path)
