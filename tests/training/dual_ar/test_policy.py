"""Policy optimisation: advantages follow the recogniser's judgement, and training makes favoured takes more likely."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import PHONES as ALL_PHONES
from engine.text.english.pronunciation import Lexicon
from engine.text.tokenizer import LEXICON_FILE
from tests.paths import CLIP
from tests.training.dual_ar.test_train import CODEBOOKS, RESIDUAL, SEMANTIC, utterance, write_codes
from tests.training.small_model import small_models
from training.dual_ar.candidates import Candidate, Clarity, ClarityJudge, Group
from training.dual_ar.conversations import IGNORED, ConversationBuilder, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import DualAR, new_model
from training.dual_ar.policy import (
    Recipe,
    learn,
    log_probs,
    policy_loss,
    relative_scores,
    rollouts,
    whole_advantages,
)

FRAME_RATE = 20.0
PHONES = "g uh d _ b ay !"  # five phones
RECIPE = Recipe(kept=2, passes=1, positions=400, warmup_steps=1)


def candidate(seed: int, scores: list[float], *, ended: bool = True) -> Candidate:
    """A take of ten frames, two for each phone, with these log-probabilities of its phones."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, RESIDUAL, (CODEBOOKS, 10)).astype(np.int16)
    phones, ends = np.array(scores, dtype=np.float32), np.arange(1, 6, dtype=np.float32) * 2 / 20 - 0.01
    return Candidate(codes, ended, Clarity(-float(phones.mean()), phones, ends))


def group(*candidates: Candidate) -> Group:
    return Group(utterance(0, 0), PHONES, list(candidates))


@pytest.fixture
def made(tmp_path: Path) -> tuple[DualAR, ConversationBuilder]:
    write_codes(tmp_path, [utterance(speaker, i) for speaker in range(2) for i in range(6)], held_out=1)
    torch.manual_seed(0)
    with small_models():
        return new_model(tmp_path, CodeFormat.load(tmp_path / "codes"))


def test_clearer_takes_have_higher_advantages_and_takes_without_end_lower_ones() -> None:
    clear, unclear = candidate(0, [-1.0] * 5), candidate(1, [-2.0] * 5)
    assert whole_advantages([clear, unclear]) == pytest.approx([1.0, -1.0])
    endless = replace(clear, ended=False)
    assert whole_advantages([clear, endless]) == pytest.approx([1.0, -1.0])
    nearly = candidate(2, [-1.001] * 5)
    assert np.abs(whole_advantages([clear, nearly])).max() < 0.01  # a difference that means nothing


def test_a_phones_score_is_relative_to_the_same_phone_of_the_other_takes() -> None:
    takes = [candidate(0, [-1, -5, -1, -1, -1]), candidate(1, [-1, -1, -1, -1, -1]), candidate(2, [-1, -3, -1, -1, 2])]
    wanted = np.array([[0, -2, 0, 0, -1], [0, 2, 0, 0, -1], [0, 0, 0, 0, 2]])
    assert relative_scores(takes) == pytest.approx(wanted)


def test_only_the_takes_frames_and_end_are_targets_with_the_advantages_of_their_phones(
    made: tuple[DualAR, ConversationBuilder],
) -> None:
    takes = candidate(0, [-1, -99, -1, -1, -1]), candidate(1, [-1] * 5), candidate(2, [-2, -1, -1, -1, -1])
    found = rollouts([group(*takes)], made[1], FRAME_RATE, replace(RECIPE, phone_share=1.0))
    assert len(found) == 2  # the clearest and the least clear
    by_codes = {tuple(each.example.targets[each.example.targets != IGNORED].tolist()): each for each in found}
    unclear, clear = (
        by_codes[(*takes[0].codes[0].tolist(), SEMANTIC)],
        by_codes[(*takes[1].codes[0].tolist(), SEMANTIC)],
    )
    assert len(unclear.advantages) == 11
    # The second phone is in frames 2 and 3; what is heard of a frame is a little later.
    assert int(unclear.advantages[:10].argmin()) == 2
    assert unclear.advantages[1:4].max() < unclear.advantages[[0, 5, 6, 7, 8, 9]].min()
    assert clear.advantages[2] > clear.advantages[8]
    everything = torch.cat([each.advantages for each in found])
    assert float(everything.mean()) == pytest.approx(0, abs=1e-5)
    assert float(everything.std()) == pytest.approx(1, abs=1e-5)


def test_loss_favours_advantages_until_the_policy_has_moved_far_enough() -> None:
    recipe = replace(RECIPE, penalty=0.0)
    old, advantages = torch.tensor([-1.0, -1.0, -1.0, -1.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    new = torch.tensor([-1.0, -1.0, -0.5, -1.5], requires_grad=True)
    policy_loss(new, old, advantages, recipe).backward()
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([-0.25, 0.25, 0.0, 0.0])  # the last two are clipped
    new = torch.tensor([-0.5, -1.5], requires_grad=True)
    policy_loss(new, old[:2], torch.zeros(2), replace(recipe, penalty=1.0)).backward()
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([0.25, -0.25])  # back to the old policy


def test_training_makes_the_clear_take_likelier_than_the_unclear_one(
    made: tuple[DualAR, ConversationBuilder],
) -> None:
    model, builder = made
    found = rollouts(
        [group(candidate(0, [-1.0] * 5), candidate(1, [-2.0] * 5))], builder, FRAME_RATE, replace(RECIPE, phone_share=0)
    )
    clear, unclear = sorted(found, key=lambda each: -float(each.advantages[0]))

    def likelihoods() -> tuple[float, float]:
        with torch.no_grad():
            values = [log_probs(model, collate([each.example]), 0.5) for each in (clear, unclear)]
        first, second = (float(semantic.mean() + residual.mean()) for semantic, residual, _ in values)
        return first, second

    before = likelihoods()
    learn(model, found, 0.5, replace(RECIPE, passes=8, slow_rate=1e-3, fast_rate=1e-3))
    after = likelihoods()
    assert after[0] > before[0]
    assert after[1] < before[1]


def test_prompts_are_of_phones_beside_a_lexicon(
    made: tuple[DualAR, ConversationBuilder], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The folder of a release has a lexicon, which would take phones for words."""
    release = tmp_path_factory.mktemp("release")
    shutil.copy(BUNDLED / LEXICON_FILE, release)
    with small_models():
        _, builder = new_model(release, CodeFormat.load(tmp_path / "codes"))
    spoken = [utterance(0, 0)], [utterance(0, 1)]
    assert torch.equal(builder.build(*spoken).columns, made[1].build(*spoken).columns)


def test_log_probabilities_are_those_of_the_codes_at_the_temperature(made: tuple[DualAR, ConversationBuilder]) -> None:
    model, builder = made[0].eval(), made[1]
    (rollout, other) = rollouts(
        [group(candidate(0, [-1.0] * 5), candidate(1, [-2.0] * 5))], builder, FRAME_RATE, RECIPE
    )
    batch = collate([rollout.example, other.example])
    with torch.no_grad():
        semantic, residual, is_frame = log_probs(model, batch, 0.5)
        forced = model.force(batch)
    assert is_frame.tolist() == [*[True] * 10, False] * 2
    assert residual.shape == (20, CODEBOOKS - 1)
    wanted = torch.distributions.Categorical(logits=forced.logits / 0.5).log_prob(forced.tokens)
    torch.testing.assert_close(semantic, wanted)


def test_judge_finds_speech_clear_and_damaged_words_unclear() -> None:
    judge = ClarityJudge()
    samples, rate = soundfile.read(CLIP, dtype="float32")
    words = Lexicon.load(BUNDLED / LEXICON_FILE).phones("The train was late, so we walked along the river.")
    phones = [each for each in words.split() if each in ALL_PHONES]
    whole = judge.judge(samples, rate, phones)
    assert whole is not None
    assert len(whole.phones) == len(whole.ends) == len(phones)
    assert whole.ends[-1] == pytest.approx(len(samples) / rate, abs=0.03)
    assert (np.diff(whole.ends) > 0).all()
    damaged, middle = samples.copy(), len(samples) // 2
    damaged[middle : middle + rate // 3] = samples[middle : middle + rate // 3][::-1]
    unclear = judge.judge(damaged, rate, phones)
    assert unclear is not None
    assert unclear.error > whole.error
    lost = whole.phones - unclear.phones
    at = whole.ends[int(lost.argmax())]
    assert middle / rate - 0.2 < at < middle / rate + 0.7
    assert judge.judge(samples[: rate // 10], rate, phones) is None
