"""The dual AR's trainer: examples equal the engine's prompts; training learns, resumes, and exports a release."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.families.family import PromptReference
from engine.families.s2.dual_ar import load_dual_ar
from engine.families.s2.prompt import PromptBuilder
from engine.text.tokenizer import Tokenizer
from tests.paths import BUNDLED
from tests.training.small_model import small_models
from training.dual_ar import model as dual_ar
from training.dual_ar import train as train_ar
from training.dual_ar.conversations import (
    DEGRADED_SHARE,
    IGNORED,
    TURN_SHARES,
    ConversationBuilder,
    ConversationSampler,
    EncodedUtterance,
    collate,
    conversation_batches,
)
from training.dual_ar.encode import CodedCorpus, phone_of_frames
from training.dual_ar.transcripts import damaged
from training.export import export, release_config
from training.tokenizer import save_tokenizer
from training.work import TrainingError

SEMANTIC, RESIDUAL, CODEBOOKS = 32, 16, 4
WORDS = ["hh ax l ow .", "g uh d _ b ay !", "y eh s .", "n ow _ n ow ?"]


def utterance(speaker: int, index: int) -> EncodedUtterance:
    rng = np.random.default_rng([speaker, index])
    phones = WORDS[index % len(WORDS)]
    frames = int(rng.integers(6, 12))
    codes = rng.integers(0, RESIDUAL, (CODEBOOKS, frames))
    codes[0] = rng.integers(0, SEMANTIC, frames)
    spoken = np.sort(rng.integers(0, len(phones.split()), frames))
    return EncodedUtterance(speaker, phones, codes.astype(np.int16), spoken.astype(np.int16))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    save_tokenizer(tmp_path, SEMANTIC)
    return Tokenizer.load(tmp_path)


@pytest.fixture
def builder(tokenizer: Tokenizer) -> ConversationBuilder:
    prompt = PromptBuilder(tokenizer, CODEBOOKS)
    return ConversationBuilder(prompt, tokenizer.semantic_start_id, SEMANTIC, tokenizer.end_id)


def test_example_equals_the_engine_prompt(tokenizer: Tokenizer, builder: ConversationBuilder) -> None:
    reference, turn = utterance(0, 0), utterance(0, 1)
    prompt = PromptBuilder(tokenizer, CODEBOOKS)
    expected = torch.cat(
        (
            prompt.system([PromptReference(reference.phones, torch.from_numpy(reference.codes))]),
            prompt.user(turn.phones),
            prompt.frames(torch.from_numpy(turn.codes)),
            prompt.turn_end(),
        ),
        dim=1,
    )
    assert torch.equal(builder.build([reference], [turn]).columns, expected)


def test_targets_are_next_tokens_and_guide_points_to_phones(tokenizer: Tokenizer, builder: ConversationBuilder) -> None:
    spoken = [utterance(0, 0), utterance(0, 1), utterance(0, 2)]
    example = builder.build(spoken[:1], spoken[1:])
    frames = example.targets[(example.targets != IGNORED) & (example.targets < SEMANTIC)]
    assert frames.tolist() == np.concatenate([u.codes[0] for u in spoken]).tolist()
    assert int((example.targets == SEMANTIC).sum()) == len(spoken)
    tokens = example.columns[0]
    for position in torch.nonzero(example.targets == SEMANTIC).flatten().tolist():
        assert int(tokens[position + 1]) == tokenizer.end_id
    guided = torch.nonzero(example.guide >= 0).flatten()
    written = [int(tokens[i]) for i in example.guide[guided]]
    phones = [u.phones.split()[k] for u in spoken for k in u.phone_of_frame]
    assert written == [tokenizer.id(phone) for phone in phones]
    assert bool((example.guide[guided] < guided + 1).all())


def test_batches_are_bounded_in_positions(builder: ConversationBuilder) -> None:
    speakers = [utterance(s, i) for s in range(3) for i in range(8)]
    batch = next(iter(ConversationSampler(speakers, builder, 400, 0)))
    assert batch.columns.shape[0] * batch.columns.shape[2] <= 400 + batch.columns.shape[2]
    assert batch.columns.shape[::2] == batch.targets.shape == batch.guide.shape


def test_each_process_prepares_other_batches(builder: ConversationBuilder) -> None:
    speakers = [utterance(s, i) for s in range(3) for i in range(8)]
    alone, together = (conversation_batches(speakers, builder, 400, seed=3, workers=count) for count in (0, 2))
    wanted = next(iter(ConversationSampler(speakers, builder, 400, 3)))
    assert torch.equal(next(alone).columns, wanted.columns)
    batches = [next(together).columns for _ in range(4)]
    assert not any(torch.equal(a, b) for a, b in combinations(batches, 2))


def test_degraded_reference_is_input_but_not_a_target(builder: ConversationBuilder) -> None:
    clean, turn = utterance(0, 0), utterance(0, 1)
    codes = (clean.codes + 1) % RESIDUAL
    noisy = replace(clean, degraded=codes)
    plain, degraded = (builder.build([noisy], [turn], degraded_reference=choice) for choice in (False, True))
    bare = builder.build([replace(clean, codes=codes)], [turn])
    assert torch.equal(degraded.columns, bare.columns)
    assert not torch.equal(degraded.columns, plain.columns)
    spoken = turn.codes.shape[1] + 1  # plus the end
    assert int((degraded.targets != IGNORED).sum()) == spoken
    assert int((plain.targets != IGNORED).sum()) == spoken + clean.codes.shape[1] + 1
    assert torch.equal(degraded.targets[-spoken - 5 :], plain.targets[-spoken - 5 :])


def test_reference_with_wrong_transcript_is_not_a_target(tokenizer: Tokenizer, builder: ConversationBuilder) -> None:
    reference, turn = utterance(0, 0), utterance(0, 1)
    for wrong in ("", "hh ax", f"{reference.phones} {turn.phones}"):
        example = builder.build([reference], [turn], transcript=wrong)
        codes = torch.from_numpy(reference.codes)
        system = PromptBuilder(tokenizer, CODEBOOKS).system([PromptReference(wrong, codes)])
        length = system.shape[1]
        assert torch.equal(example.columns[:, :length], system)
        assert bool((example.targets[:length] == IGNORED).all())
        right = builder.build([reference], [turn])
        assert torch.equal(example.targets[length:], right.targets[-len(example.targets[length:]) :])
        assert int((example.guide >= 0).sum()) == turn.codes.shape[1]
        assert bool((example.guide[example.guide >= 0] >= length).all())


def test_sampler_draws_some_wrong_transcripts(builder: ConversationBuilder) -> None:
    sampler = ConversationSampler([utterance(0, i) for i in range(12)], builder, 400, 0)
    examples = [sampler._draw() for _ in range(200)]
    unheard = [int((example.targets == SEMANTIC).sum()) for example in examples]
    right = ConversationSampler([utterance(0, i) for i in range(12)], builder, 400, 0)
    right._wrong_transcript = lambda reference: None  # type: ignore[assignment,method-assign,return-value]
    assert sum(unheard) < sum(int((right._draw().targets == SEMANTIC).sum()) for _ in range(200))


def test_damaged_transcripts_are_short_long_or_empty() -> None:
    rng = np.random.default_rng(0)
    phones, other = "dh ax _ k ae t _ s ae t _ d aw n .", "n ow !"
    made = {damaged(phones, other, rng) for _ in range(200)}
    assert {"", f"{phones} {other}", f"{other} {phones}"} <= made
    short = made - {"", f"{phones} {other}", f"{other} {phones}"}
    assert "dh ax" in short
    assert all(text in phones and text != phones for text in short)


def test_sampler_draws_some_degraded_references(builder: ConversationBuilder) -> None:
    marked = [replace(u, degraded=np.full_like(u.codes, RESIDUAL - 1)) for u in (utterance(0, i) for i in range(8))]
    sampler = ConversationSampler(marked, builder, 400, 0)
    examples = [sampler._draw() for _ in range(300)]
    heard = [int((example.columns[2:] == RESIDUAL - 1).all(0).sum()) > 4 for example in examples]
    assert sum(heard) / len(heard) == pytest.approx(DEGRADED_SHARE, abs=0.1)


def test_sampler_draws_conversations_of_several_turns(builder: ConversationBuilder) -> None:
    sampler = ConversationSampler([utterance(0, i) for i in range(12)], builder, 400, 0)
    examples = [sampler._draw() for _ in range(400)]
    stretches = [int((example.targets == SEMANTIC).sum()) for example in examples]  # ends, including the reference's
    assert max(stretches) == 1 + len(TURN_SHARES)
    assert np.mean([count >= 4 for count in stretches]) == pytest.approx(sum(TURN_SHARES[2:]), abs=0.07)


def test_few_utterances_make_short_conversations(builder: ConversationBuilder) -> None:
    sampler = ConversationSampler([utterance(0, i) for i in range(6)], builder, 400, 0)
    assert max(int((sampler._draw().targets == SEMANTIC).sum()) for _ in range(100)) <= 6


def test_padding_does_not_change_losses(tokenizer: Tokenizer, builder: ConversationBuilder) -> None:
    config = dual_ar.bundled_config(SEMANTIC + 100, tokenizer.semantic_start_id, SEMANTIC, CODEBOOKS)
    torch.manual_seed(0)
    model = dual_ar.DualAR(config, tokenizer.end_id, RESIDUAL, alignment_layer=1).eval()
    recipe = train_ar.DualARRecipe(minutes=1)
    short = builder.build([utterance(0, 0)], [utterance(0, 1)])
    long = builder.build([utterance(1, 0), utterance(1, 1)], [utterance(1, 2), utterance(1, 3)])
    padded = collate([short, long])
    alone = train_ar.losses_of(model, collate([short]), recipe, training=False)
    first = train_ar.losses_of(
        model, type(padded)(padded.columns[:1], padded.targets[:1], padded.guide[:1]), recipe, training=False
    )
    for name, value in alone.items():
        torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-4)


def test_guide_loss_takes_the_keys_of_the_heads_group(tokenizer: Tokenizer, builder: ConversationBuilder) -> None:
    config = dual_ar.bundled_config(SEMANTIC + 100, tokenizer.semantic_start_id, SEMANTIC, CODEBOOKS)
    batch = collate([builder.build([utterance(0, 0)], [utterance(0, 1)])])
    for head in range(config.slow.n_head):
        torch.manual_seed(0)
        model = dual_ar.DualAR(config, tokenizer.end_id, RESIDUAL, alignment_layer=1, alignment_head=head).eval()
        guided = model.teacher_force(batch).guided
        block: Any = model.slow.layers[1]
        q, k, _ = block.attention.project(guided, model.slow.rope[: guided.shape[1], None])
        keys = k.repeat_interleave(config.slow.n_head // config.slow.n_local_heads, dim=1)
        weights = (q @ keys.transpose(2, 3) / q.shape[-1] ** 0.5).exp()[0, head].tril()
        weights = weights / weights.sum(-1, keepdim=True)
        spoken = torch.nonzero(batch.guide[0] >= 0).flatten()
        window = batch.guide[0, spoken, None] + torch.tensor([-1, 0, 1])
        expected = -weights[spoken].gather(1, window).sum(-1).log().mean()
        torch.testing.assert_close(model.guide_loss(guided, batch.guide), expected, rtol=1e-4, atol=1e-5)


def write_codes(work: Path, utterances: list[EncodedUtterance], *, held_out: int) -> None:
    """Write one shard of codes, in which one speaker is held out."""
    codes = work / "codes"
    codes.mkdir(parents=True, exist_ok=True)
    np.savez(
        codes / "codes-000-0.npz",
        codes=np.concatenate([u.codes for u in utterances], axis=1),
        ends=np.cumsum([u.codes.shape[1] for u in utterances]),
        spoken=np.concatenate([u.phone_of_frame for u in utterances]),
        speaker=np.array([u.speaker for u in utterances]),
        phones=np.array([u.phones for u in utterances]),
        held_out=np.array([u.speaker == held_out for u in utterances]),
    )
    meta = {"num_codebooks": CODEBOOKS, "semantic_size": SEMANTIC, "residual_size": RESIDUAL, "frame_rate": 21.5}
    (codes / "codec.json").write_text(json.dumps(meta))


@pytest.fixture
def small() -> Iterator[None]:
    with small_models():
        yield


@pytest.mark.usefixtures("small")
def test_training_updates_resumes_and_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = tmp_path / "codes"
    made = [utterance(s, i) for s in range(3) for i in range(8)]
    write_codes(tmp_path, made, held_out=2)
    corpus = CodedCorpus.load(codes)
    assert (len(corpus.train), len(corpus.held_out)) == (16, 8)
    corpus_path = tmp_path / "ar" / "checkpoint.pt"
    train_ar.train(tmp_path, train_ar.DualARRecipe(minutes=60, steps=2, positions=400, warmup_steps=2), 1)
    first = torch.load(corpus_path, weights_only=True)
    assert first["step"] == 2
    train_ar.train(tmp_path, train_ar.DualARRecipe(minutes=60, steps=4, positions=400, warmup_steps=2), 1)
    second = torch.load(corpus_path, weights_only=True)
    assert second["step"] == 4
    assert not torch.equal(second["model"]["slow.embeddings.weight"], first["model"]["slow.embeddings.weight"])
    assert f"resuming at step {first['step']}" in capsys.readouterr().out
    # The exported release loads strictly and has the trained weights.
    from safetensors.torch import save_file

    tokenizer = Tokenizer.load(tmp_path / "ar")
    vocabulary = len(second["model"]["slow.embeddings.weight"])
    config = dual_ar.bundled_config(vocabulary, tokenizer.semantic_start_id, SEMANTIC, CODEBOOKS)
    save_file(dual_ar.release_tensors(second["model"]), tmp_path / "ar" / "model.safetensors")
    (tmp_path / "ar" / "config.json").write_text(json.dumps(release_config(config)))
    loaded = load_dual_ar(tmp_path / "ar", dtype=torch.float32, device="cpu")
    assert loaded.config == config
    name = "layers.0.attention.wqkv.weight"
    assert torch.equal(loaded.slow.state_dict()[name], second["model"][f"slow.{name}"].half().float())

    # A new run starts from that release; with a learning rate of 0 its weights stay the same.
    still = train_ar.DualARRecipe(minutes=60, steps=1, positions=400, learning_rate=0.0)
    shutil.copytree(codes, tmp_path / "on" / "codes")
    source = shutil.copytree(tmp_path / "ar", tmp_path / "on" / "matched")
    train_ar.train(tmp_path / "on", still, 1, source=source)
    begun = torch.load(tmp_path / "on" / "ar" / "checkpoint.pt", weights_only=True)["model"]
    assert all(torch.equal(begun[name], tensor.half().float()) for name, tensor in second["model"].items())
    with pytest.raises(TrainingError, match="did not begin with new weights"):
        train_ar.train(tmp_path / "on", still, 1)
    moved = (tmp_path / "on").rename(tmp_path / "moved")
    train_ar.train(moved, still, 1, source=moved / "matched")
    assert "resuming at step 1" in capsys.readouterr().out


@pytest.mark.parametrize(("counts", "part"), [((5, 6), "training"), ((6, 5), "held-out"), ((6, 0), "held-out")])
def test_too_few_utterances_of_every_speaker_are_rejected(tmp_path: Path, counts: tuple[int, int], part: str) -> None:
    spoken = [utterance(speaker, i) for speaker, count in enumerate(counts) for i in range(count)]
    write_codes(tmp_path, spoken, held_out=1)
    with pytest.raises(TrainingError, match=f"No speaker has 6 {part} utterances"):
        train_ar.train(tmp_path, train_ar.DualARRecipe(minutes=60, steps=1), 1)


def test_releases_and_checkpoints_of_other_sizes_are_rejected(tmp_path: Path) -> None:
    write_codes(tmp_path, [utterance(speaker, i) for speaker in range(2) for i in range(6)], held_out=1)
    quick = train_ar.DualARRecipe(minutes=60, steps=1, positions=400)
    with pytest.raises(TrainingError, match="is not a release to continue from"):
        train_ar.train(tmp_path, quick, 1, source=tmp_path)
    with small_models():
        with pytest.raises(TrainingError, match="has other sizes than one for these codes"):
            train_ar.train(tmp_path, quick, 1, source=BUNDLED)
        train_ar.train(tmp_path, quick, 1)
        checkpoint = tmp_path / "ar" / "checkpoint.pt"
        state = torch.load(checkpoint, weights_only=True)
        state["optimiser"]["param_groups"] = state["optimiser"]["param_groups"][:2]
        torch.save(state, checkpoint)
        with pytest.raises(TrainingError, match="is of another version of Reprise"):
            train_ar.train(tmp_path, quick, 1)
    with pytest.raises(TrainingError, match=r"checkpoint\.pt holds a model of other sizes"):
        train_ar.train(tmp_path, quick, 1)


def test_export_rejects_another_codec_and_its_files_are_readable_by_all(tmp_path: Path) -> None:
    write_codes(tmp_path, [utterance(speaker, i) for speaker in range(2) for i in range(6)], held_out=1)
    with small_models():
        train_ar.train(tmp_path, train_ar.DualARRecipe(minutes=60, steps=1, positions=400), 1)
        export(tmp_path, BUNDLED, tmp_path / "release")
        for file in (tmp_path / "release").iterdir():
            assert file.stat().st_mode & 0o044 == 0o044, file.name
        meta = json.loads((tmp_path / "codes" / "codec.json").read_text()) | {"fingerprint": "of another codec"}
        (tmp_path / "codes" / "codec.json").write_text(json.dumps(meta))
        with pytest.raises(TrainingError, match="are not those of the codec in"):
            export(tmp_path, BUNDLED, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_frame_gets_the_phone_at_its_centre() -> None:
    assert phone_of_frames([0.0, 0.1, 0.2], 6, 20.0).tolist() == [0, 0, 1, 1, 2, 2]
