"""Discriminators learn to distinguish copies from speech, and the decoder learns from them without changing codes."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec
from tests.training.codec.test_train_codec import QUICK, TINY, write_corpus
from training.codec.losses.alignment import aligned_with
from training.codec.losses.discriminators import Discriminators
from training.codec.losses.voice import VoiceLoss
from training.codec.run import CodecRun
from training.codec.train import checkpoint_of, open_run, train_to_end
from training.pitch.model import WEIGHTS_FILE as PITCH_FILE
from training.pitch.model import PitchNet
from training.speaker.model import SPEAKER_ENCODERS, SpeakerNet
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.work import TrainingError

AGAINST = replace(QUICK, steps=3, discriminators_lead=1)  # the third step's gradient includes the discriminators'


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def source(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a codec, beside untrained networks that judge voices and pitch."""
    work = tmp_path_factory.mktemp("trained")
    train_to_end(work, open_run(work, replace(QUICK, steps=2), corpus, config=TINY))
    torch.manual_seed(1)
    for file, sizes in SPEAKER_ENCODERS.items():
        SpeakerNet(sizes).save(work / file)
    PitchNet().save(work / PITCH_FILE)
    return work / "codec"


def adversarial(work: Path, corpus: Corpus, source: Path) -> CodecRun:
    shutil.copytree(source.parent, work, ignore=shutil.ignore_patterns("codec"), dirs_exist_ok=True)
    torch.manual_seed(0)  # the discriminators' first weights
    return open_run(work, AGAINST, corpus, source=source, decoder_only=True, adversarial=True, voice=True)


def waves(seed: int) -> Tensor:
    return 0.1 * torch.randn(2, 1, 3000, generator=torch.Generator().manual_seed(seed))


def test_gradient_is_that_of_the_reported_losses() -> None:
    torch.manual_seed(0)
    judges, real = Discriminators(), waves(0)
    made = 0.5 * waves(1)
    gradient = judges.judge(made, real).gradient
    direction = torch.randn(made.shape, generator=torch.Generator().manual_seed(2))

    def loss(step: float) -> float:
        losses = judges.double().judge((made + step * direction).double(), real.double())
        return float(losses.adversarial + 4 * losses.features)

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-2)


def test_discriminator_loss_gives_no_gradient_to_copies() -> None:
    judges, made = Discriminators(), waves(1).requires_grad_()
    judges.judge(made, waves(0)).discriminators.backward()
    assert made.grad is None
    assert all(p.grad is not None and p.grad.isfinite().all() for p in judges.parameters())


def test_discriminators_learn_to_distinguish_copies() -> None:
    torch.manual_seed(0)
    judges = Discriminators()
    optimiser = torch.optim.Adam(judges.parameters(), 2e-3)
    losses = []
    for seed in range(6):
        real = waves(seed).cumsum(-1) * 0.1  # low-pass noise; the copies are white noise
        own = judges.judge(waves(99 + seed), real).discriminators
        own.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(own.item())
    assert losses[-1] < 0.8 * losses[0]


def test_fresh_discriminators_answer_to_quiet_audio() -> None:
    """Signals that fade from layer to layer leave a constant answer, from which learning takes hundreds of steps."""
    torch.manual_seed(0)
    judges, audio = Discriminators(), 0.2 * waves(0)
    for discriminator in judges.all:
        *_, scores = discriminator(audio * judges.normalising_gain(audio))
        assert 0.05 < scores.detach().std() < 1


def test_verdict_does_not_depend_on_the_level() -> None:
    torch.manual_seed(0)
    judges, real, made = Discriminators(), waves(0), waves(1)
    loud, quiet = (judges.judge(gain * made, gain * real) for gain in (1.0, 0.5))
    torch.testing.assert_close(loud.features, quiet.features)
    torch.testing.assert_close(loud.discriminators, quiet.discriminators)


def test_feature_loss_of_perfect_copies_is_zero() -> None:
    real = waves(0)
    assert Discriminators().judge(real.clone(), real).features == 0


def test_decoder_only_adversarial_training_keeps_codes_and_judging_networks(
    corpus: Corpus, tmp_path: Path, source: Path
) -> None:
    run = adversarial(tmp_path, corpus, source)
    before = load_codec(*codec_files(source))
    assert run.objective.recognition is not None
    assert isinstance(run.objective.voice, VoiceLoss)
    networks = run.objective.recognition, run.objective.voice
    frozen = [{name: weight.clone() for name, weight in network.state_dict().items()} for network in networks]
    found = run.advance()
    assert all(found[name] > 0 for name in ("perceptual", "divergence", "voice", "voice_maps", "f0"))
    train_to_end(tmp_path, run)
    for network, weights in zip(networks, frozen, strict=True):
        for name, weight in network.state_dict().items():
            assert torch.equal(weights[name], weight), name
    after = load_codec(*codec_files(tmp_path / "codec"))
    assert codec_fingerprint(after) == codec_fingerprint(before)
    trained = list(run.objective.codec.decoder.parameters())
    assert not any(torch.equal(new, old) for new, old in zip(trained, before.decoder.parameters(), strict=True))
    # Files hold fp16, in which numbers may round to their old values.
    for written, new in zip(after.decoder.parameters(), trained, strict=True):
        assert torch.equal(written, new.half().float())
    assert set(load_codec(*codec_files(tmp_path / "codec")).state_dict()) == set(before.state_dict())


def test_discriminators_affect_the_decoder_only_after_their_lead(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    """The first step of the decoder is the same as without discriminators; later steps differ."""
    alone = open_run(tmp_path / "alone", AGAINST, corpus, source=source, decoder_only=True)
    judged = adversarial(tmp_path / "judged", corpus, source)
    judged.objective.recognition = judged.objective.voice = None
    assert {"discriminators", "adversarial", "features"} <= set(judged.advance()) - set(alone.advance())
    weights = [run.objective.codec.decoder.state_dict() for run in (alone, judged)]
    assert all(torch.equal(a, b) for a, b in zip(*(w.values() for w in weights), strict=True))
    for _ in range(2):
        alone.advance(), judged.advance()
    assert not all(torch.equal(a, b) for a, b in zip(*(w.values() for w in weights), strict=True))


def test_discriminators_may_be_used_in_some_steps_only(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    recipe = replace(AGAINST, discriminators_every=2)
    run = open_run(tmp_path, recipe, corpus, source=source, adversarial=True)
    judges = run.objective.discriminators
    assert judges is not None
    assert "discriminators" in run.advance()
    before, codec = [[weight.clone() for weight in part.parameters()] for part in (judges, run.objective.codec.decoder)]
    assert "discriminators" not in run.advance()
    assert all(torch.equal(a, b) for a, b in zip(before, judges.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(codec, run.objective.codec.decoder.parameters(), strict=True))


def test_copies_are_compared_with_originals_in_their_phase(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    run = adversarial(tmp_path, corpus, source)
    batch = run.sampler.batch(2, 0)
    made = run.objective.reconstruct_from_codes(batch, run.generator())
    assert torch.equal(made.target, aligned_with(made.audio.detach(), batch.audio, SAMPLE_RATE))
    assert not torch.equal(made.target, batch.audio)
    plain = open_run(tmp_path / "plain", AGAINST, corpus, source=source, decoder_only=True)
    assert torch.equal(plain.objective.reconstruct_from_codes(batch, run.generator()).target, batch.audio)


def test_missing_networks_are_reported(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    with pytest.raises(TrainingError, match=r"No speaker-wide\.safetensors in .*training\.speaker\.train"):
        open_run(tmp_path, AGAINST, corpus, source=source, decoder_only=True, voice=True)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_discriminators_have_their_share_of_the_last_layer(
    corpus: Corpus, tmp_path: Path, source: Path, share: float
) -> None:
    run = open_run(tmp_path, replace(AGAINST, discriminators_share=share), corpus, source=source, adversarial=True)
    run.step = 2 * AGAINST.discriminators_lead  # full weight
    last = run.objective.last_weight
    assert last.shape[0] == 1, "its output is the audio"
    audio = run.objective.reconstruct(run.sampler.batch(2, 0), run.generator(), share=1.0, dropout=0.0).audio
    ours, theirs = (torch.randn(audio.shape, generator=torch.Generator().manual_seed(i)) for i in range(2))
    factor = run._discriminators_factor(audio, ours, 100 * theirs)
    norms = [
        torch.autograd.grad(audio, last, each, retain_graph=True)[0].norm() for each in (ours, factor * 100 * theirs)
    ]
    assert float(norms[1] / (norms[0] + norms[1])) == pytest.approx(share, rel=1e-3)


def test_resumed_adversarial_run_equals_an_uninterrupted_one(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    unbroken = adversarial(tmp_path, corpus, source)
    for _ in range(2):
        unbroken.advance()
    (tmp_path / "codec").mkdir()
    unbroken.save(checkpoint_of(tmp_path, unbroken))
    resumed = adversarial(tmp_path, corpus, source)
    assert resumed.advance() == unbroken.advance()
    weights = resumed.objective.state_dict()
    for name, weight in unbroken.objective.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    with pytest.raises(TrainingError, match=r"--voice\) than these \(--decoder-only --adversarial\)"):
        open_run(tmp_path, AGAINST, corpus, source=source, decoder_only=True, adversarial=True)


def test_full_adversarial_training_changes_codes(corpus: Corpus, tmp_path: Path, source: Path) -> None:
    run = open_run(tmp_path, AGAINST, corpus, source=source, adversarial=True)
    assert {"perceptual", "discriminators", "phones", "pitch"} <= set(run.advance())
    train_to_end(tmp_path, run)
    assert checkpoint_of(tmp_path, run).name == "checkpoint-continued-adversarial.pt"
    codecs = [load_codec(*codec_files(folder)) for folder in (source, tmp_path / "codec")]
    assert codec_fingerprint(codecs[0]) != codec_fingerprint(codecs[1])
