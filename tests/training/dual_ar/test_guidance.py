"""Guidance distillation: guided distributions, and a model that learns them."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training.dual_ar.test_train import utterance, write_codes
from tests.training.small_model import small_models
from training.dual_ar.conversations import ConversationBuilder, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.guidance import Distributions, GuidanceRecipe, divergences, guided_take, learn
from training.dual_ar.model import DualAR, new_model
from training.dual_ar.own_takes import OwnTake, TakeRates

RATES = TakeRates(slow=3e-3, fast=3e-3, warmup_steps=1, final=0.1, clip_gradient=1.0)
RECIPE = GuidanceRecipe(passes=20, semantic_scale=2.0, residual_scale=3.0, positions=400, rates=RATES)


@pytest.fixture
def made(tmp_path: Path) -> tuple[DualAR, ConversationBuilder]:
    """A model that is surer of its codes than a new one, and depends on its reference."""
    write_codes(tmp_path, [utterance(speaker, i) for speaker in range(2) for i in range(6)], held_out=1)
    torch.manual_seed(0)
    with small_models():
        model, builder = new_model(tmp_path, CodeFormat.load(tmp_path / "codes"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.dim() == 2 else 1)
    return model.eval(), builder


def test_guidance_multiplies_the_odds_that_a_reference_changes() -> None:
    """Odds of .8 to .2 with a reference, where they are even without: 4 to 1, 16 to 1 at scale 2, 64 to 1 at 3."""
    referenced, plain = torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.5, 0.5]]).log()
    found = Distributions(referenced, referenced[None]).guided(Distributions(plain, plain[None]), RECIPE)
    assert found.semantic.exp().tolist() == [pytest.approx([16 / 17, 1 / 17])]
    assert found.residual.exp().tolist() == [[pytest.approx([64 / 65, 1 / 65])]]
    none = replace(RECIPE, semantic_scale=1.0, residual_scale=1.0)
    same = Distributions(referenced, referenced[None]).guided(Distributions(plain, plain[None]), none)
    torch.testing.assert_close(same.semantic, referenced)
    torch.testing.assert_close(same.residual[0], referenced)


def test_divergences_are_means_over_codes() -> None:
    one, other = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log(), torch.tensor([[0.5, 0.5], [0.5, 0.5]]).log()
    semantic, residual = divergences(Distributions(one, one[None]), Distributions(other, other[None]))
    wanted = 0.5 * (0.5 * torch.tensor(0.5 / 0.8).log() + 0.5 * torch.tensor(0.5 / 0.2).log())
    torch.testing.assert_close(semantic, wanted)
    torch.testing.assert_close(residual, wanted)


def test_model_learns_the_guided_distributions_and_keeps_those_without_a_reference(
    made: tuple[DualAR, ConversationBuilder],
) -> None:
    teacher, builder = made
    takes = [guided_take(OwnTake(utterance(0, 0), utterance(0, i)), builder) for i in (1, 2)]
    referenced, plain = collate([each.referenced for each in takes]), collate([each.plain for each in takes])

    def distances(model: DualAR) -> tuple[float, float]:
        """From the guided distributions of the teacher, and without a reference from its own."""
        with torch.no_grad():
            alone = Distributions.of(teacher, plain)
            guided = Distributions.of(teacher, referenced).guided(alone, RECIPE)
            pairs = (referenced, guided), (plain, alone)
            near, kept = (sum(divergences(Distributions.of(model, batch), target)) for batch, target in pairs)
        return float(near), float(kept)

    before, student = distances(teacher), copy.deepcopy(teacher)
    learn(student, teacher, takes, replace(RECIPE, plain_share=0.3))
    after = distances(student)
    assert before[0] > 0.01
    assert before[1] == pytest.approx(0, abs=1e-5)
    assert after[0] < 0.5 * before[0]
    forgetful = copy.deepcopy(teacher)
    learn(forgetful, teacher, takes, replace(RECIPE, plain_share=0.0))
    assert after[1] < distances(forgetful)[1]


def test_targets_are_the_same_with_and_without_a_reference(made: tuple[DualAR, ConversationBuilder]) -> None:
    take = guided_take(OwnTake(utterance(0, 0), utterance(0, 1)), made[1])
    wanted = [each.targets[each.targets >= 0].tolist() for each in (take.referenced, take.plain)]
    assert wanted[0] == wanted[1]
    assert len(wanted[0]) == utterance(0, 1).codes.shape[1] + 1  # the end, too
    assert take.plain.columns.shape[1] < take.referenced.columns.shape[1]
