"""Reward optimisation: gains are estimated from the recogniser's gradient, and training raises the expected gain."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import torchaudio.functional as AF
from torch import Tensor

from engine.families.s2.codec import codec_files, load_codec_encoder
from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import PHONES as ALL_PHONES
from engine.text.english.pronunciation import Lexicon
from engine.text.tokenizer import LEXICON_FILE
from tests.paths import CLIP
from tests.training.dual_ar.test_train import CODEBOOKS, RESIDUAL, utterance, write_codes
from tests.training.small_model import small_models
from training.codec.quantizer import decode_latents
from training.dual_ar.conversations import IGNORED, ConversationBuilder, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import DualAR, new_model
from training.dual_ar.own_takes import OwnTake
from training.dual_ar.reward import (
    LogProbs,
    RewardRecipe,
    expected_gain,
    learn,
    log_probs,
    optimise,
    penalty,
    rewarded_take,
)
from training.dual_ar.take_reward import Judgement, TakeReward
from training.dual_ar.voice_reward import SpeakerVoice, VoiceReward
from training.pitch.model import PitchNet
from training.recogniser.model import RATE
from training.speaker.model import SpeakerNet
from training.work import TrainingError

RECIPE = RewardRecipe(passes=1, positions=400, warmup_steps=1)
WIDTH = 6
WEIGHT = 1.0  # nats per frame for a similarity of 1
PITCH = 15.0  # of speakers, in semitones above 50 Hz


ENTRIES = torch.randn(CODEBOOKS, RESIDUAL, WIDTH, generator=torch.Generator().manual_seed(3))


def gains(gradient: Tensor, codes: Tensor, codebook: int) -> Tensor:
    """Gains of codes that stand for the vectors `ENTRIES`."""
    values = gradient @ ENTRIES[codebook].T
    return values - values.gather(1, codes[:, codebook, None])


@pytest.fixture
def made(tmp_path: Path) -> tuple[DualAR, ConversationBuilder]:
    write_codes(tmp_path, [utterance(speaker, i) for speaker in range(2) for i in range(6)], held_out=1)
    torch.manual_seed(0)
    with small_models():
        return new_model(tmp_path, CodeFormat.load(tmp_path / "codes"))


def speaker_net() -> SpeakerNet:
    torch.manual_seed(0)
    return SpeakerNet().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def reward() -> TakeReward:
    """A reward for the voice of the clip (speaker 1) and another one (speaker 2)."""
    model, (samples, rate) = speaker_net(), soundfile.read(CLIP, dtype="float32")
    own = model(AF.resample(torch.from_numpy(samples), rate, RATE)[None])[0]
    return take_reward({1: own, 2: -own})


def take_reward(centroids: dict[int, Tensor], pitch_weight: float = 0.0) -> TakeReward:
    """Return a reward of voices with these embeddings and the pitch `PITCH`."""
    voices = {speaker: SpeakerVoice(embedding, PITCH) for speaker, embedding in centroids.items()}
    networks = speaker_net(), pitch_net()
    voice = VoiceReward(*networks, voices, similarity_weight=WEIGHT, pitch_weight=pitch_weight)
    return TakeReward(BUNDLED, "cpu", voice)


def pitch_net() -> PitchNet:
    torch.manual_seed(0)
    return PitchNet().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def clip() -> tuple[np.ndarray, list[str]]:
    """The codes and the phones of the beginning of a clip."""
    samples, rate = soundfile.read(CLIP, dtype="float32")
    samples = samples[: int(1.3 * rate)]
    path, config = codec_files(BUNDLED)
    wave = AF.resample(torch.from_numpy(samples), rate, config.sample_rate)
    codes = load_codec_encoder(path, config).encode(wave[None, None])[0]
    words = Lexicon.load(BUNDLED / LEXICON_FILE).phones("The train was late.")
    return codes.numpy().astype(np.int16), [each for each in words.split() if each in ALL_PHONES]


@pytest.fixture(scope="module")
def words(clip: tuple[np.ndarray, list[str]]) -> Judgement:
    """The judgement of the clip's words alone."""
    return judged(take_reward({1: torch.zeros(128)}), *clip)


def judged(reward: TakeReward, codes: np.ndarray, phones: list[str], speaker: int = 1) -> Judgement:
    found = reward.judge(codes, phones, speaker)
    assert found is not None
    return found


def test_speech_is_clearer_than_damaged_or_other_words(reward: TakeReward, clip: tuple[np.ndarray, list[str]]) -> None:
    codes, phones = clip
    whole, middle = judged(reward, codes, phones), codes.shape[1] // 2
    damaged = codes.copy()
    damaged[:, middle : middle + 8] = codes[:, middle : middle + 8][:, ::-1]
    assert judged(reward, damaged, phones).error > whole.error
    assert judged(reward, codes, phones[::-1]).error > whole.error + 1
    assert whole.gradient.shape == (codes.shape[1], codec_files(BUNDLED)[1].latent_dim)
    assert reward.judge(codes[:, :2], phones, 1) is None  # too short for the phones
    assert reward.judge(codes, [], 1) is None


def test_take_is_compared_with_the_voice_of_its_speaker(
    reward: TakeReward, clip: tuple[np.ndarray, list[str]], words: Judgement
) -> None:
    codes, phones = clip
    own, other = judged(reward, codes, phones), judged(reward, codes, phones, speaker=2)
    assert 0.5 < own.similarity <= 1
    assert other.similarity == pytest.approx(-own.similarity)
    assert other.error == own.error
    # What brings a take nearer to a voice takes it away from the opposite one. The rest is the words' part.
    middle = (own.gradient + other.gradient) / 2
    torch.testing.assert_close(middle, words.gradient, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(own.gradient, middle, rtol=1e-2, atol=1e-4)


def test_take_is_compared_with_the_pitch_of_its_speaker(
    reward: TakeReward, clip: tuple[np.ndarray, list[str]], words: Judgement
) -> None:
    codes, phones = clip
    pitched = judged(take_reward({1: torch.zeros(128)}, pitch_weight=0.5), codes, phones)
    audio = reward._resample(decode_latents(reward._decoder, latents_of(reward, codes))[:, 0])
    assert pitched.pitch == pytest.approx(float(pitch_net().mean_pitch(audio)) - PITCH, abs=1e-3)
    assert pitched.pitch > 1, "beyond the first semitone, the reward falls by its weight a semitone"
    latents = latents_of(reward, codes).requires_grad_(True)
    pitch = pitch_net().mean_pitch(reward._resample(decode_latents(reward._decoder, latents)[:, 0]))[0]
    (rising,) = torch.autograd.grad(pitch, latents)
    fall = -0.5 * codes.shape[1] * rising[0].T
    torch.testing.assert_close(pitched.gradient, words.gradient + fall, rtol=1e-3, atol=1e-5)


def latents_of(reward: TakeReward, codes: np.ndarray) -> Tensor:
    return reward._decoder.quantizer.from_codes(torch.from_numpy(codes.astype(np.int64))[None])


def test_estimated_gains_are_those_of_codes_that_are_replaced(
    reward: TakeReward, clip: tuple[np.ndarray, list[str]]
) -> None:
    codes, phones = clip
    found = judged(reward, codes, phones)
    taken = torch.from_numpy(codes.astype(np.int64)).T
    rng, estimated, true = np.random.default_rng(0), [], []
    for codebook in (6, 8):
        estimates = reward.gains(found.gradient, taken, codebook)
        assert estimates.shape == (codes.shape[1], codec_files(BUNDLED)[1].quantizer.codebook_size)
        assert estimates.gather(1, taken[:, codebook, None]).abs().max() == 0  # to stay gains nothing
        for frame in rng.choice(codes.shape[1], 4, replace=False):
            # A small change, because the estimate is to first order.
            code = int((estimates[frame].abs() - 0.3).abs().argmin())
            other = codes.copy()
            other[codebook, frame] = code
            estimated.append(float(estimates[frame, code]))
            changed = judged(reward, other, phones)
            clearer, nearer = found.error - changed.error, changed.similarity - found.similarity
            true.append(clearer * len(phones) + WEIGHT * codes.shape[1] * nearer)
    assert np.corrcoef(estimated, true)[0, 1] > 0.5


def test_expected_gain_is_the_mean_over_the_codes_distributions() -> None:
    torch.manual_seed(1)
    codes, gradient = torch.randint(0, RESIDUAL, (4, CODEBOOKS)), torch.randn(4, WIDTH)
    residual = torch.randn(4, CODEBOOKS - 1, RESIDUAL).log_softmax(-1)
    wanted = 0.0
    for frame in range(4):
        for codebook in range(1, CODEBOOKS):
            for code in range(RESIDUAL):
                difference = ENTRIES[codebook, code] - ENTRIES[codebook, codes[frame, codebook]]
                gain = float((difference @ gradient[frame]).clamp(-0.5, 0.5))
                wanted += float(residual[frame, codebook - 1, code].exp()) * gain / 4
    found = expected_gain(LogProbs(torch.zeros(4), residual, codes), gradient, gains, 0.5)
    assert float(found) == pytest.approx(wanted, abs=1e-5)


def test_penalty_pulls_the_takes_codes_back_to_their_earlier_probabilities() -> None:
    codes = torch.zeros(2, 2, dtype=torch.long)
    logits = torch.tensor([[[0.5, -1.0]], [[-4.0, -1.0]]], requires_grad=True)
    semantic = torch.tensor([-1.0, -0.5], requires_grad=True)
    found = LogProbs(semantic, logits, codes)
    recipe = replace(RECIPE, semantic_penalty=1.0, residual_penalty=2.0)
    penalty(found, torch.tensor([-1.0, -1.0]), torch.tensor([[-0.5], [-1.0]]), recipe).backward()
    assert semantic.grad is not None
    assert logits.grad is not None
    assert semantic.grad.tolist() == pytest.approx([0.0, 0.25])
    # A distance of more than 1 pulls with constant force; other codes than the takes' are free.
    assert logits.grad.flatten().tolist() == pytest.approx([1.0, 0.0, -1.0, 0.0])


def test_training_raises_the_expected_gain(made: tuple[DualAR, ConversationBuilder]) -> None:
    model, builder = made
    takes = [OwnTake(utterance(0, 0), utterance(0, i)) for i in range(1, 4)]
    rewarded_takes = [rewarded_take(each, torch.randn(each.utterance.codes.shape[1], WIDTH), builder) for each in takes]
    batch = collate([each.example for each in rewarded_takes])
    gradient = torch.cat([each.gradient for each in rewarded_takes])

    def gain() -> float:
        with torch.no_grad():
            return float(expected_gain(log_probs(model, batch, 0.5), gradient, gains, 1.0))

    before = gain()
    learn(model, rewarded_takes, gains, 0.5, replace(RECIPE, passes=8, slow_rate=1e-3, fast_rate=1e-3))
    assert gain() > before + 0.05


def test_only_the_takes_frames_and_end_are_targets(made: tuple[DualAR, ConversationBuilder]) -> None:
    model, builder = made[0].eval(), made[1]
    take = OwnTake(utterance(0, 0), utterance(0, 1))
    found = rewarded_take(take, torch.zeros(take.utterance.codes.shape[1], WIDTH), builder)
    targets = found.example.targets[found.example.targets != IGNORED]
    assert targets[:-1].tolist() == take.utterance.codes[0].tolist()
    batch = collate([found.example])
    with torch.no_grad():
        probabilities, forced = log_probs(model, batch, 0.5), model.teacher_force(batch)
    assert torch.equal(probabilities.codes, torch.from_numpy(take.utterance.codes.astype(np.int64)).T)
    assert probabilities.taken.shape == (take.utterance.codes.shape[1], CODEBOOKS - 1)
    wanted = torch.distributions.Categorical(logits=forced.logits / 0.5).log_prob(forced.tokens)
    torch.testing.assert_close(probabilities.semantic, wanted)


def test_finished_rounds_of_another_release_or_recipe_are_refused(tmp_path: Path) -> None:
    first = tmp_path / "reward" / "round-1"
    first.mkdir(parents=True)
    (first / "model.safetensors").touch()
    recipe = RewardRecipe(rounds=1)
    (tmp_path / "reward" / "recipe.json").write_text(json.dumps({"release": "release", "takes": recipe.takes}))
    assert optimise(tmp_path, tmp_path / "release", recipe) == []
    with pytest.raises(TrainingError, match=r"another release or recipe \(release\)"):
        optimise(tmp_path, Path("/nonexistent"), recipe)
    with pytest.raises(TrainingError, match=r"another release or recipe \(takes\)"):
        optimise(tmp_path, tmp_path / "release", replace(recipe, takes=7))


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
