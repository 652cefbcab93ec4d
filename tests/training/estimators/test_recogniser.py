"""Training the phone recogniser: its speakers, its augmented features, and its learning."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from engine.text.english.pronunciation import PHONES, Lexicon
from training.recogniser.model import BLANK, LogMel, Recogniser, decode

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the speakers' warps")

from tests.training.fortunes import needs_fortunes
from training.recogniser import speech as recogniser_speech
from training.recogniser.speech import RATE, LabelledUtterance, lines, load, recogniser_speakers, save
from training.recogniser.train import BatchAugmenter, Trainer, batches, error_rate, timed_phones
from training.speech.lexicon import LEXICON
from training.speech.speakers import HELD_OUT_TEACHER, speakers


def utterance(phones: str, seed: int) -> LabelledUtterance:
    """Return an utterance with one tone of 80 ms for each phone, with a little noise."""
    numbers = [PHONES.index(phone) for phone in phones.split()]
    time = np.arange(int(0.08 * RATE)) / RATE
    tones = [np.sin(2 * np.pi * (300 + 150 * number) * time) for number in numbers]
    samples = 0.1 * np.concatenate(tones) + np.random.default_rng(seed).normal(0, 0.003, len(time) * len(tones))
    starts = 0.08 * np.arange(len(numbers))
    return LabelledUtterance(samples.astype(np.float32), np.array(numbers), starts.astype(np.float32))


SPEECH = [utterance(" ".join(random.Random(seed).choices(PHONES[:5], k=5)), seed) for seed in range(24)]


def test_decode_merges_repeats_and_splits_at_blanks() -> None:
    best = [BLANK, 3, 3, BLANK, 3, 7, 7]
    logits = torch.nn.functional.one_hot(torch.tensor(best), BLANK + 1).float()
    assert decode(logits) == [PHONES[3], PHONES[3], PHONES[7]]
    assert decode(logits[:0]) == []


def test_features_do_not_depend_on_level() -> None:
    mel, wave = LogMel(), torch.from_numpy(SPEECH[0].samples)
    assert mel(wave).shape == (1 + len(wave) // 160, 64)
    assert torch.allclose(mel(wave), mel(0.05 * wave), atol=0.02)


def test_weights_survive_saving_and_loading(tmp_path: Path) -> None:
    model = Recogniser().half().float().eval()
    model.save(tmp_path / "weights.safetensors")
    features = torch.randn(1, 30, 64)
    assert torch.equal(Recogniser.load(tmp_path / "weights.safetensors")(features), model(features))
    assert model(features).shape == (1, 15, len(PHONES) + 1)


def test_weights_for_other_phones_are_rejected(tmp_path: Path) -> None:
    save_file(Recogniser().state_dict(), tmp_path / "weights.safetensors", metadata={"phones": "aa b"})
    with pytest.raises(ValueError, match="another phone set"):
        Recogniser.load(tmp_path / "weights.safetensors")


def test_timed_phones_label_frames_with_the_spoken_phone() -> None:
    short = LabelledUtterance(np.zeros(RATE, np.float32), np.array([4, 9]), np.array([0.05, 0.15], np.float32))
    named = timed_phones(short, 20)
    assert named.tolist() == [-100] * 3 + [4] * 5 + [9] * 5 + [-100] * 7


def test_training_steps_reduce_loss() -> None:
    trainer, augmenter, rng = Trainer(steps=16), BatchAugmenter(), random.Random(0)
    before = error_rate(trainer.model, SPEECH[:6])
    losses = [trainer.step(batch) for _ in range(8) for batch in batches(SPEECH, augmenter, rng)]
    assert np.mean(losses[-4:]) < 0.6 * np.mean(losses[:4])
    assert error_rate(trainer.model, SPEECH[:6]) <= before


def test_augmentation_varies_between_batches_but_not_runs() -> None:
    one, again = BatchAugmenter(1), BatchAugmenter(1)
    first, second = one.batch(SPEECH[:3]), one.batch(SPEECH[:3])
    assert torch.equal(first.features, again.batch(SPEECH[:3]).features)
    assert first.features.shape != second.features.shape or not torch.equal(first.features, second.features)
    assert torch.equal(first.phones, second.phones)
    assert (first.frames >= first.counts).all()


def test_shards_survive_saving_and_loading(tmp_path: Path) -> None:
    save(tmp_path / "speech-00.npz", SPEECH[:3])
    for before, after in zip(SPEECH, load(tmp_path / "speech-00.npz"), strict=False):
        assert np.abs(before.samples - after.samples).max() < 1e-4
        assert np.array_equal(before.phones, after.phones)
        assert np.array_equal(before.starts, after.starts)


def test_recogniser_cast_excludes_corpus_speakers() -> None:
    chosen = recogniser_speakers()
    corpus_voices = {(each.voice, each.pitch, each.tract, each.setting) for each in speakers()}
    assert not [each for each in chosen if (each.voice, each.pitch, each.tract, each.setting) in corpus_voices]
    assert any(each.voice == HELD_OUT_TEACHER for each in chosen)


@needs_fortunes
def test_lines_of_a_shard_are_deterministic() -> None:
    lexicon = Lexicon.load(LEXICON)
    first = list(itertools.islice(lines(0, lexicon), 60))
    assert first == list(itertools.islice(lines(0, lexicon), 60))
    assert first != list(itertools.islice(lines(1, lexicon), 60))
    assert {speaker.engine for _, speaker in first} == set(recogniser_speech.SHARES)


def test_every_teacher_renders_speech_with_phone_times() -> None:
    from tests.training.test_data import MISSING

    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    renderer = recogniser_speech.RecogniserCorpusRenderer()
    text = "The teacher opened the window."
    chosen = {speaker.engine: speaker for speaker in recogniser_speakers()}
    said = renderer._spoken([(text, speaker) for speaker in chosen.values()])
    for line, spoken in said:
        made = renderer._finished(line, spoken, random.Random(0))
        assert made is not None
        assert [PHONES[phone] for phone in made.phones] == renderer.lexicon.phone_list(text)
        assert (np.diff(made.starts) >= 0).all()
        assert 0 <= made.starts[0] < made.starts[-1] < len(made.samples) / RATE
