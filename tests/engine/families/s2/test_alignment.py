"""Word times: the best alignment path, and the bundled model's times against a recogniser."""

import itertools
import math
from contextlib import closing
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, SpeakOptions
from engine.errors import InvalidConfig
from engine.families.s2 import alignment
from engine.families.s2.alignment import AttentionAligner, frames_before_repetition, monotonic_path
from engine.families.s2.dual_ar import load_dual_ar, read_header
from engine.families.s2.prompt import PromptBuilder
from engine.models.prompt import Prompt
from engine.release.profile import Profile
from engine.text import Segment
from engine.text.tags import word_spans
from engine.text.tokenizer import Tokenizer
from engine.voice import Voice
from tests.paths import MINIATURE, ROOT

CLARA = Voice.from_bytes((ROOT / "assets" / "samples" / "clara.voice").read_bytes())
TEXT = "So, we can go out. It costs $25 now!"


def path_score(scores: torch.Tensor, path: tuple[int, ...]) -> float:
    """Return the score of a path. It may skip a few tokens per step and any at both ends, each at a cost."""
    steps = [later - earlier for earlier, later in itertools.pairwise(path)]
    if any(not 0 <= step <= 1 + alignment.MAX_SKIPPED for step in steps):
        return -math.inf
    skipped = path[0] + scores.shape[1] - 1 - path[-1] + sum(max(0, step - 1) for step in steps)
    return sum(float(scores[at, token]) for at, token in enumerate(path)) - alignment._SKIP_COST * skipped


@given(st.integers(1, 4), st.integers(1, 8), st.integers(0, 1000))
def test_monotonic_path_has_the_best_score(frames: int, tokens: int, seed: int) -> None:
    scores = torch.rand(frames, tokens, generator=torch.Generator().manual_seed(seed)).mul(6).neg()
    found = tuple(monotonic_path(scores).tolist())
    best = max(path_score(scores, path) for path in itertools.product(range(tokens), repeat=frames))
    assert path_score(scores, found) == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(
    ("tokens", "count", "last_word", "frames"),
    [  # of the bundled model
        ([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3], 4, 0, 14),  # "Yes." twice
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 1, 1, 2, 2, 3, 3, 4, 4, 4], 5, 0, 10),  # "Great!" twice
        ([0, 0, 1, 2, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0, 1, 2, 2], 3, 0, 5),  # "Bye!" three times
        ([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 0, 1, 1, 1, 1, 2, 2, 2, 2], 3, 0, 10),  # "Hi." twice
        ([0, 0, 1, 1, 1, 2, 1, 0, 0, 2, 2, 2, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2], 3, 0, 11),  # "two" twice
        ([*range(22), 21, 21, 18, 18, 19, 19, 19, 20, 21, 21], 22, 18, 23),  # "… the party, right?", "right" twice
        (
            [*range(54), 53, 46, 47, 47, 48, 49, 50, 51, 52, 53, 54],
            55,
            50,
            54,
        ),  # "… a little girl", "little girl" twice
    ],
)
def test_repetition_of_the_last_words_is_found(tokens: list[int], count: int, last_word: int, frames: int) -> None:
    assert frames_before_repetition(tokens, count, last_word) == frames


@pytest.mark.parametrize(
    ("tokens", "count", "last_word"),
    [  # of the bundled model
        ([0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9], 10, 5),  # a phone is reached too early
        ([29, 30, 31, 38, 32, 34, 35, 36, 37, 38, 58, 46, 47, 48, 56, 57, 58, 58], 59, 54),  # single frames look ahead
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 3, 4, 4], 5, 0),  # the last phone is heard once more
        ([0, 1, 2, 2, 0], 3, 0),  # the last frame
        ([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0], 3, 0),  # "Go.", whose last sound fades
        ([0, 0, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0], 3, 0),  # "Who?"
        ([0, 0, 3, 0, 3, 3, 0, 1, 1, 2, 3, 3, 3, 4], 5, 0),  # "Six.", whose first phone is also its last
        ([0, 0, 0, 5, 5, 1, 1, 1, 2, 2, 3, 4, 4, 3], 6, 0),  # "Thanks."
    ],
)
def test_attention_that_wavers_is_no_repetition(tokens: list[int], count: int, last_word: int) -> None:
    assert frames_before_repetition(tokens, count, last_word) == len(tokens)


@given(st.lists(st.integers(0, 20), max_size=60).map(sorted), st.integers(1, 21), st.data())
def test_speech_that_never_goes_back_is_no_repetition(tokens: list[int], count: int, data: st.DataObject) -> None:
    said = [token for token in tokens if token < count]
    assert frames_before_repetition(said, count, data.draw(st.integers(0, count - 1))) == len(said)


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 7), st.data())
def test_a_cut_leaves_frames_of_the_whole_text(tokens: list[int], count: int, data: st.DataObject) -> None:
    said = [token for token in tokens if token < count]
    frames = frames_before_repetition(said, count, data.draw(st.integers(0, count - 1)))
    assert frames == len(said) or max(said[:frames]) >= count - 2


def test_a_single_word_is_spoken_once(bundled_engine: Engine) -> None:
    """The bundled model begins the word again with this seed."""
    adam = Voice.from_bytes((ROOT / "assets" / "samples" / "adam.voice").read_bytes())
    speech = bundled_engine.speak("House.", adam, SpeakOptions(seed=1, word_times=True))
    chunks = list(speech)
    assert speech.result is not None
    assert (speech.result.stop_reason, speech.result.segments[0].attempts) == ("end", 1)
    assert 0.4 < speech.result.seconds < 0.8
    assert sum(len(chunk.samples) for chunk in chunks) == speech.result.frames * bundled_engine.info.frame_length
    (word,) = chunks[-1].words
    assert word.end <= speech.result.seconds


def test_word_spans_skip_speaker_and_style_tags() -> None:
    text = "<|speaker:1|>Well, [softly] the end — the end."
    assert [text[start:end] for start, end in word_spans(text)] == ["Well,", "the", "end", "—", "the", "end."]


def test_word_times_agree_with_a_recogniser(bundled_engine: Engine) -> None:
    pytest.importorskip("pyworld")
    from benchmarks.quality.word_times import heard_words, spoken_words
    from engine.text.english.pronunciation import Lexicon
    from training.recogniser.alignment import Aligner
    from training.speech.lexicon import LEXICON

    text = "The rain has stopped, so we can go out for a walk."
    take, spoken = spoken_words(bundled_engine, text, CLARA)
    heard = heard_words(Aligner(), Lexicon.load(LEXICON), text, take, bundled_engine.info.sample_rate)
    assert [word.text for word in spoken] == text.split()
    assert len(heard) == len(spoken)
    errors = [abs(word.start - span[0]) for word, span in zip(spoken, heard, strict=True)]
    assert np.median(errors) < 0.06
    assert max(errors) < 0.3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(ROOT / "assets" / "bundled")


def words_of_tokens(tokenizer: Tokenizer, text: str) -> list[tuple[str, str]]:
    """Align a text with speech that has one frame per token. Return its words with the tokens spoken in each."""
    assert tokenizer.lexicon
    spoken = tokenizer.lexicon.phones(text).split()

    class OneFrameEach(AttentionAligner):
        def _attention(self, prompt: Prompt, text: str, codes: torch.Tensor) -> torch.Tensor:
            return torch.eye(len(spoken))

    aligner = OneFrameEach(Mock(), PromptBuilder(tokenizer, 3), (0, 0))
    return [(word.text, " ".join(spoken[word.start : word.end])) for word in aligner.align(Mock(), text, Mock()).words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It costs £5 million now.", "ih t|k aa s t s|f ay v|m ih l y ax n _ p aw n d z|n aw"),
        ("On Jan 5 we met.", "aa n|jh ae n y uw eh r iy|f ih f th|w iy|m eh t"),
        ("The 3 May is the end.", "dh ax|th er d _ ah v|m ey|ih z|dh iy|eh n d"),
        ("LET US GO NOW!", "l eh t|ah s|g ow|n aw"),
        ("They sold 10 000.", "dh ey|s ow l d|t eh n|th aw z ax n d"),
        (
            "Call (555) 123 4567 now.",
            "k ao l|f ay v _ f ay v _ f ay v|w ah n _ t uw _ th r iy|f ao r _ f ay v _ s ih k s _ s eh v ax n|n aw",
        ),
        (
            "+44 20 1946 09",
            "p l ah s _ f ao r _ f ao r|t uw _ z ih r ow|w ah n _ n ay n _ f ao r _ s ih k s|z ih r ow _ n ay n",
        ),
    ],
)
def test_words_read_by_their_neighbours_are_aligned_whole(tokenizer: Tokenizer, text: str, words: str) -> None:
    assert words_of_tokens(tokenizer, text) == list(zip(text.split(), words.split("|"), strict=True))


PIECES = (
    "£5 $3 5 3 Jan May million The the apple US — - St. p.m. 10 000 1/2 555 123 4567 read ... ? 本 <|speaker:1|>"
).split()


@settings(max_examples=50)
@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_words_of_any_text_are_in_order(tokenizer: Tokenizer, pieces: list[str]) -> None:
    text = " ".join(pieces)
    found = words_of_tokens(tokenizer, text)
    remaining = iter(pieces)
    assert all(word in remaining and phones for word, phones in found)
    assert tokenizer.lexicon
    spoken = iter(tokenizer.lexicon.phones(text).split())
    assert all(token in spoken for _, phones in found for token in phones.split())


def test_all_words_of_a_long_text_have_times(bundled_engine: Engine) -> None:
    options = replace(bundled_engine.info.default_options, seed=3, word_times=True)
    chunks = list(bundled_engine.speak(TEXT, CLARA, options))
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.text for word in words] == TEXT.split()
    texts = {chunk.segment: chunk.text for chunk in chunks}
    assert all(texts[word.segment][word.offset :].startswith(word.text) for word in words)
    edges = [edge for word in words for edge in (word.start, word.end)]
    assert edges == sorted(edges)
    assert all(word.end - word.start > 0.04 for word in words)
    last = max(chunk.start + len(chunk.samples) for chunk in chunks) / bundled_engine.info.sample_rate
    assert edges[-1] <= last
    plain = bundled_engine.speak("Go out.", CLARA, replace(options, word_times=False))
    with closing(plain):
        assert not next(plain).words


def test_pauses_delay_the_words_after_them(bundled_engine: Engine) -> None:
    def starts(before: float, after: float) -> list[float]:
        segments = [Segment("Go out.", silence_before=before, silence_after=after), Segment("No.")]
        speech = bundled_engine.speak(segments, CLARA, SpeakOptions(seed=3, word_times=True))
        return [word.start for chunk in speech for word in chunk.words]

    go, out, no = starts(0, 0)
    assert starts(0.5, 0.25) == pytest.approx([go + 0.5, out + 0.5, no + 0.75], abs=1e-4)


@pytest.mark.parametrize("head", [[2], [2, -1], ["2", 0], 3, [2.0, 0]])
def test_alignment_head_must_be_layer_and_head_numbers(head: object) -> None:
    with pytest.raises(InvalidConfig, match="alignment_head"):
        Profile(alignment_head=head)  # type: ignore[arg-type]


def test_alignment_is_the_same_with_embeddings_of_text_in_host_memory() -> None:
    header = read_header(MINIATURE)
    prompts = PromptBuilder(header.tokenizer, header.config.num_codebooks)
    prompt, codes = Prompt(prompts.user("Hello there.")), torch.randint(0, 60, (header.config.num_codebooks, 5))
    attention = []
    for rows in (0, header.tokenizer.end_id):
        model = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu", header=header, host_rows=rows)
        with torch.inference_mode():
            attention.append(AttentionAligner(model.slow, prompts, (1, 0))._attention(prompt, "Hello there.", codes))
    assert attention[0].std() > 0
    torch.testing.assert_close(*attention)
