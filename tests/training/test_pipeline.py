"""The training pipeline at its tiny setting: killed, resumed, and its results."""

import json
import math
import multiprocessing
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from tests.paths import BUNDLED, MINIATURE, ROOT

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the speakers' warps")

from engine.codec.codec import Codec
from engine.codec.fingerprint import codec_fingerprint
from engine.engine import Engine
from engine.families.s2.codec import codec_files, load_codec
from engine.families.s2.dual_ar import load_dual_ar
from engine.text.english.pronunciation import Lexicon
from tests.training.fortunes import needs_fortunes
from tests.training.small_model import small_models
from tests.training.test_data import needs_synthesizers
from tests.training.test_packing import write_shard
from training import pipeline
from training.codec.train import open_run, recipe_of
from training.dual_ar import reward
from training.dual_ar.encode import CodedCorpus
from training.dual_ar.model import release_tensors
from training.packing import pack
from training.pipeline import SEED, STAGES, Record, StageFailed, check_gate, held_out_pair, run, stages
from training.settings import FULL, LARGE, REFINED, SAMPLES, TINY, Setting, scaled
from training.speech import synthesize
from training.speech.corpus import SAMPLE_RATE, Corpus, table
from training.speech.lexicon import LEXICON
from training.speech.sample_voices import DESIGNS, FIRST_ID
from training.speech.sentences import FORTUNES, is_held_out
from training.speech.speakers import SHARES, speakers
from training.work import TrainingError

pytestmark = pytest.mark.slow


def modification_times(folder: Path) -> dict[str, int]:
    """Return the modification time of each file below `folder`."""
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def start_and_kill(work: Path, at: str) -> None:
    """Run the command in another process and kill it as soon as it prints the line `at`. It prints no warnings."""
    quiet = ["-W", "ignore::UserWarning:pyworld"]  # that pkg_resources, which it imports, is deprecated
    command = [sys.executable, *quiet, "-m", "training.pipeline", "--work", str(work), "--setting", "tiny"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if line.strip() == at:
                process.kill()
        assert process.wait() == -signal.SIGKILL, output
    assert "Warning" not in output


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run that was killed in the codec's first stage and resumed."""
    if not FORTUNES.exists():
        pytest.skip("not installed: fortunes")
    work = tmp_path_factory.mktemp("pipeline")
    start_and_kill(work, "codec: begins")
    assert list(json.loads((work / "pipeline.json").read_text())["done"]) == ["speech"]
    made = modification_times(work / "data")
    with small_models():
        done = run(work, TINY)
    assert list(done) == [stage.name for stage in STAGES]
    assert modification_times(work / "data") == made
    return work


@needs_synthesizers
def test_release_loads_strictly_and_speaks(work: Path) -> None:
    model = load_dual_ar(work / "release", dtype=torch.float32, device=torch.device("cpu"))
    assert model.config.num_codebooks == 1 + TINY.codec.quantizer.n_codebooks
    codec = load_codec(*codec_files(work / "release"))
    assert codec.config == TINY.codec

    samples, rate = soundfile.read(work / "first_words.wav")
    output = json.loads((work / "pipeline.json").read_text())["done"]["first-words"]
    assert rate == codec.config.sample_rate
    assert len(samples) > 0
    assert np.isfinite(samples).all()
    assert output["stop_reason"] in ("end", "short", "length")
    assert is_held_out(output["text"])


@needs_synthesizers
def test_release_speech_is_finite_and_in_whole_frames(work: Path) -> None:
    engine = Engine.load(work / "release", "cpu", slots=1, graphs="off")
    try:
        speech = engine.speak("Good morning.", None)
        chunks = list(speech)
    finally:
        engine.close()
    assert speech.result is not None
    assert speech.result.stop_reason in ("end", "short", "length")
    assert engine.info.sample_rate == SAMPLE_RATE
    assert all(
        np.isfinite(chunk.samples).all() and len(chunk.samples) % engine.info.frame_length == 0 for chunk in chunks
    )


@needs_synthesizers
def test_guidance_changes_the_dual_ar_and_nothing_else(work: Path) -> None:
    assert json.loads((work / "pipeline.json").read_text())["done"]["guidance"]["takes"] > 0
    trained = release_tensors(torch.load(work / "ar" / "checkpoint.pt", weights_only=True)["model"])
    guided = load_file(work / "guidance" / "model.safetensors")
    assert trained.keys() == guided.keys()
    assert not all(torch.equal(trained[name], guided[name]) for name in trained)
    for file in (work / "guidance").iterdir():
        if file.name != "model.safetensors":
            assert file.read_bytes() == (work / "release" / file.name).read_bytes()


@needs_synthesizers
def test_reward_optimisation_changes_the_dual_ar_and_nothing_else(work: Path) -> None:
    done = json.loads((work / "pipeline.json").read_text())["done"]
    assert done["speaker"]["voices"] > 1
    assert done["pitch"]["utterances"] > 1
    (error,), (similarity,) = done["reward"]["errors"], done["reward"]["similarities"]
    assert error > 0
    assert -1 <= similarity <= 1
    trained = torch.load(work / "ar" / "checkpoint.pt", weights_only=True)["model"]
    before, after = release_tensors(trained), load_file(work / "release" / "model.safetensors")
    assert before.keys() == after.keys()
    assert not all(torch.equal(before[name], after[name]) for name in before)
    for file in (work / "reward" / "release").iterdir():
        assert file.read_bytes() == (work / "release" / file.name).read_bytes()
        assert file.stat().st_mode & 0o044 == 0o044, file.name
    assert reward.optimise(work, work / "guidance", TINY.reward) == []  # all rounds are finished
    with pytest.raises(TrainingError, match=r"another release or recipe \(release\): give that again"):
        reward.optimise(work, work / "another", TINY.reward)
    with pytest.raises(TrainingError, match=r"\(takes, slow_rate\)"):
        reward.optimise(work, work / "guidance", replace(TINY.reward, takes=9, slow_rate=1.0))


@needs_synthesizers
def test_reward_optimisation_refuses_a_release_with_another_codec(work: Path, tmp_path: Path) -> None:
    for name in ("data", "codes", "speaker.safetensors", "pitch.safetensors"):
        (tmp_path / name).symlink_to(work / name)
    with pytest.raises(TrainingError, match="are not those of the codec in"):
        reward.optimise(tmp_path, MINIATURE, TINY.reward)


@needs_synthesizers
def test_packed_speech_is_not_synthesized_again(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = pack(work, tmp_path / "packed", 2**24)
    rest = pack(work, tmp_path / "rest", 2**24, first=1)
    monkeypatch.setattr(pipeline, "synthesize", lambda *_args, **_options: pytest.fail("speech is synthesized"))
    done = run(tmp_path / "there", TINY, until="speech", packed=[tmp_path / "packed", tmp_path / "rest"])
    assert done["speech"] == {"packed shards": numbers}
    assert rest == numbers[1:]
    texts = [each.text for each in Corpus.load(work / "data").utterances]
    assert [each.text for each in Corpus.load(tmp_path / "there" / "data").utterances] == texts


@pytest.mark.parametrize(("setting", "taken"), [(SAMPLES, True), (REFINED, False), (FULL, False)])
def test_packed_codes_are_taken_if_the_codec_stays(setting: Setting, taken: bool, tmp_path: Path) -> None:
    write_shard(tmp_path / "here", 0)
    fingerprint = codec_fingerprint(load_codec(*codec_files(BUNDLED)))
    (tmp_path / "here" / "codes" / "codec.json").write_text(json.dumps({"fingerprint": fingerprint}))
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    run(tmp_path / "there", setting, until="speech", packed=[tmp_path / "packed"])
    assert (tmp_path / "there" / "codes" / "codes-000-0.npz").exists() == taken


def test_scaled_setting_trains_for_a_part_of_the_minutes() -> None:
    short = scaled(REFINED, 0.02)
    assert short.refined is not None
    assert [short.refined.minutes, short.ar.minutes, short.adversarial.minutes] == pytest.approx([6.0, 3.6, 1.6])
    assert scaled(FULL, 1) == FULL


def test_scaled_setting_trains_estimators_and_reward_in_full() -> None:
    assert scaled(REFINED, 0.02).ar.steps == math.inf
    assert [scaled(TINY, 0.5).fresh.steps, scaled(TINY, 0.5).ar.steps] == [2, 2]
    for setting in (REFINED, TINY):
        short = scaled(setting, 0.02)
        assert (short.speaker, short.pitch, short.reward) == (setting.speaker, setting.pitch, setting.reward)


@needs_synthesizers
def test_finished_pipeline_does_nothing_when_run_again(work: Path) -> None:
    before = modification_times(work)
    run(work, TINY)
    assert modification_times(work) == before


@needs_synthesizers
def test_only_missing_results_are_made_again(work: Path) -> None:
    target = work / "first_words.wav"
    before, (words, _) = modification_times(work), soundfile.read(target, dtype="int16")
    target.unlink()
    run(work, TINY)
    changed = {name for name, moment in modification_times(work).items() if before[name] != moment}
    assert changed == {str(target), str(work / "pipeline.json")}
    again, _ = soundfile.read(target, dtype="int16")
    # The codes are equal, but chunk sizes depend on timing and change the rounding of the audio. Without any voice in
    # it, rounding can change the periods that the postfilter finds.
    assert len(again) == len(words)
    apart = again.astype(np.float64) - words
    assert np.linalg.norm(apart) < 0.2 * np.linalg.norm(words.astype(np.float64))


@needs_synthesizers
def test_other_settings_in_the_same_folder_are_rejected(work: Path) -> None:
    with pytest.raises(StageFailed, match=r"another setting \(gate\)"):
        run(work, replace(TINY, gate=0.5))


@needs_synthesizers
def test_shard_bytes_do_not_depend_on_processes_or_other_shards(work: Path, tmp_path: Path) -> None:
    """Write the last shard in a process of its own: the tests' process has used the same libraries."""
    process = multiprocessing.get_context("forkserver").Process(
        target=synthesize.write_shard,
        args=(TINY.speech.shards,),
        kwargs={"folder": tmp_path, "seed": SEED, "spec": TINY.speech},
    )
    process.start()
    process.join()
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"audio-002.npy", "index-002.jsonl"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (work / "data" / name).read_bytes(), name
    files = {file.name for file in (work / "data").iterdir()}
    assert {"audio-000.npy", "audio-001.npy", "speakers.json", *names} < files


@needs_synthesizers
def test_held_out_speakers_and_sentences_never_train_the_codec(work: Path) -> None:
    corpus = Corpus.load(work / "data")
    kept = {speaker.id for speaker in speakers() if speaker.held_out}
    for each in corpus.utterances:
        assert each.for_training == (each.speaker not in kept and not is_held_out(each.text))
    # Held-out speech is made loud and all other silent, so a batch with held-out speech is not silent.
    marked = [
        replace(each, shard_audio=np.full_like(each.shard_audio, 0 if each.for_training else 9999))
        for each in corpus.utterances
    ]
    for source in (None, work / "codec"):
        opened = open_run(work, TINY.fresh, Corpus(marked, corpus.speakers), source=source, config=TINY.codec)
        for number in range(20):
            assert not opened.sampler.batch(16, number).audio.any()


@needs_synthesizers
def test_held_out_speakers_and_sentences_never_train_the_dual_ar(work: Path) -> None:
    corpus, coded = Corpus.load(work / "data"), CodedCorpus.load(work / "codes")
    kept = {speaker.id for speaker in speakers() if speaker.held_out}
    tests = {" ".join(each.tokens) for each in corpus.utterances if each.test_sentence}
    trained = sum(each.for_training for each in corpus.utterances)
    assert len(coded.train) == TINY.variants * trained
    assert not {each.speaker % 10_000 for each in coded.train} & kept
    assert not {each.phones for each in coded.train} & tests
    assert {each.phones for each in coded.held_out} >= tests


@needs_synthesizers
def test_first_words_use_a_held_out_voice_and_sentence(work: Path) -> None:
    reference, sentence = held_out_pair(Corpus.load(work / "data"))
    assert {each.speaker for each in reference} == {sentence.speaker}
    assert sentence.held_out_speaker
    assert sentence.test_sentence
    assert sentence.text not in {each.text for each in reference}
    assert sum(each.samples for each in reference) > SAMPLE_RATE


@needs_synthesizers
def test_corpus_table_counts_every_utterance_once(work: Path) -> None:
    corpus = Corpus.load(work / "data")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(corpus).splitlines()[2:]]
    totals = [int(row[2].replace(",", "")) for row in rows if row[0].startswith("**")]
    parts = [int(row[2].replace(",", "")) for row in rows if not row[0].startswith("**")]
    assert sum(totals) == sum(parts) == len(corpus.utterances)


def test_codec_with_low_pitch_correlation_fails_the_gate(tmp_path: Path) -> None:
    for pitch in (0.94, float("nan")):
        with pytest.raises(StageFailed, match=r"F0 correlation is .* Continue training .*/codec --minutes M"):
            check_gate(pitch, FULL, tmp_path)
        with pytest.raises(StageFailed, match=r"Continue training .*/codec --adversarial --anchored --minutes M"):
            check_gate(pitch, REFINED, tmp_path)
    check_gate(0.95, FULL, tmp_path)
    check_gate(float("nan"), TINY, tmp_path)


@pytest.mark.parametrize("setting", [FULL, LARGE, SAMPLES, REFINED])
def test_commands_train_the_codec_like_the_stages(setting: Setting) -> None:
    trained = {
        setting.fresh: recipe_of(continued=False),
        setting.continued: recipe_of(continued=True),
        setting.adversarial: recipe_of(continued=True, adversarial=True),
    }
    if setting.refined is not None:
        trained[setting.refined] = recipe_of(continued=True, adversarial=True, anchored=True)
    for stage, command in trained.items():
        assert replace(command, minutes=stage.minutes) == stage


def test_large_codec_fits_a_release_of_80_mb() -> None:
    with torch.device("meta"):
        large, bundled = Codec(LARGE.codec), Codec(FULL.codec)
    parts = (large, large.decoder, bundled.decoder)
    size, decoder, before = (sum(p.numel() for p in part.parameters()) for part in parts)
    assert 2 * size < 60e6  # in fp16; the dual AR and the lexicon take 18 MB
    assert 2 * before < decoder < 3 * before
    assert (large.config.frame_rate, large.config.sample_rate) == (bundled.config.frame_rate, SAMPLE_RATE)


def test_setting_with_a_source_release_trains_no_codec() -> None:
    names = [stage.name for stage in stages(SAMPLES)]
    assert names[:3] == ["speech", "source", "codes"]
    assert [stage.name for stage in stages(FULL)] == [stage.name for stage in STAGES]
    assert set(names) - {"source"} < {stage.name for stage in STAGES}


def test_refined_setting_trains_the_whole_codec_of_its_source() -> None:
    names = [stage.name for stage in stages(REFINED)]
    assert names[:7] == ["speech", "source", "codec-refined", "gate", "matched", "codes", "ar"]
    assert set(names) - {"source", "codec-refined", "matched"} < {stage.name for stage in STAGES}


def test_refined_dual_ar_begins_with_the_matched_release(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work / "data", tmp_path / "data")
    ar = replace(TINY.ar, learning_rate=0.0, steps=1)
    codec = replace(TINY.codec, encoder_dim=TINY.codec.encoder_dim + 1)
    setting = replace(TINY, source=work / "release", refined=TINY.continued, ar=ar, variants=1, codec=codec)
    record = Record.open(tmp_path / "pipeline.json", setting)
    record.done |= {"speech": {}, "gate": {}}  # the whole run measures a codec
    record.save(tmp_path / "pipeline.json")
    with small_models():
        done = run(tmp_path, setting, until="ar")
    assert len(done["matched"]["same codes"]) == TINY.codec.num_codebooks
    embeddings = "audio_decoder.codebook_embeddings.weight"
    before, matched = (load_file(each / "model.safetensors") for each in (work / "release", tmp_path / "matched"))
    assert not torch.equal(before[embeddings], matched[embeddings])
    state = torch.load(tmp_path / "ar" / "checkpoint.pt", weights_only=True)["model"]
    assert torch.equal(state["slow.codebook_embeddings.weight"], matched[embeddings].float())
    source, refined = (load_codec(*codec_files(each)).state_dict() for each in (work / "release", tmp_path / "matched"))
    semantic = "quantizer.semantic_quantizer.quantizers.0.codebook.weight"
    assert torch.equal(source[semantic], refined[semantic])
    assert codec_files(tmp_path / "matched")[1] == codec


@needs_fortunes
def test_sample_voices_speak_their_share_of_sentences() -> None:
    lexicon = Lexicon.load(LEXICON)
    jobs = list(islice(synthesize.training_jobs(1, SEED, lexicon, SAMPLES.speech), 2000))
    ours = Counter(job.speaker.id for job in jobs if job.speaker.id >= FIRST_ID)
    assert ours.total() / len(jobs) == pytest.approx(SAMPLES.speech.sample_voices, abs=0.05)
    assert len(ours) == len(DESIGNS)
    assert not any(is_held_out(job.text) for job in jobs)
    assert not [job for job in islice(synthesize.training_jobs(1, SEED, lexicon, FULL.speech), 500)
                if job.speaker.id >= FIRST_ID]  # fmt: skip


def test_full_corpus_includes_all_speakers() -> None:
    whole = [
        each.id
        for engine in SHARES
        for held in (False, True)
        for each in FULL.speech.speakers_of(engine, held_out=held)
    ]
    assert sorted(whole) == [each.id for each in speakers()]
