"""Train the codec of the bundled model on synthetic speech, on a CPU or a CUDA device.

    python -m training.codec.train --work DIR [--minutes M] [--from FOLDER [--decoder-only [--voice] | --anchored]]

Reads `DIR/data`, and writes `DIR/codec/codec.safetensors` and `codec_config.json` at the end of the run. A stopped run
resumes from its last checkpoint; a finished one continues when it is given more minutes.

A new codec trains for some hundred steps without codebooks, which are then initialised from its latents and used for
a growing share of the samples. --from continues from the codec in a folder and changes the meaning of its codes. With
--decoder-only all existing codes stay valid, with --anchored most semantic ones. --adversarial adds discriminators and
the phone recogniser's loss, which penalises phones that differ between copy and original. Use it only once the codes
carry pitch: with discriminators from the start, the codec never learns it. --voice adds the losses of the speaker
encoders and the pitch estimator of DIR (training/speaker, training/pitch).
"""

import argparse
import math
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec
from training.codec.batches import CropSampler
from training.codec.check import held_out_quality
from training.codec.initialisation import initialise
from training.codec.losses.voice import VoiceLoss
from training.codec.objective import CodecObjective
from training.codec.run import ADVERSARIAL, ANCHORED, CONTINUED, CodecRecipe, CodecRun
from training.codec.sizes import bundled_codec_config, write_codec
from training.device import loader_workers, tf32_and_cudnn_benchmark, training_device
from training.recogniser.model import WEIGHTS, Recogniser
from training.settings import SETTINGS
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.work import DEFAULT_WORK, TrainingError, exit_with_message, origin_of, positive, positive_int

SAVE_SECONDS = 300
REPORT_STEPS = 100
CHECKED_UTTERANCES = 12
BATCH = {"cpu": 4, "cuda": 32}


def open_run(
    work: Path,
    recipe: CodecRecipe,
    corpus: Corpus,
    *,
    source: Path | None = None,
    decoder_only: bool = False,
    adversarial: bool = False,
    voice: bool = False,
    anchored: bool = False,
    device: str = "cpu",
    config: CodecConfig | None = None,
) -> CodecRun:
    """Open a run at its last checkpoint, or start it.

    Args:
        source: folder of the codec to continue from; None starts a new codec with the sizes of `config`.
        voice: whether the decoder learns from the speaker encoders and the pitch estimator of `work`.

    Raises TrainingError for speech that does not fit the codec, a missing speaker encoder or pitch estimator, or a
    checkpoint with another origin, other options or other sizes, and the errors of `load_codec`.
    """
    if source is None:
        torch.manual_seed(recipe.seed)
        codec, origin = Codec(config or bundled_codec_config()).to(device), ""
    else:
        path, own = codec_files(source)
        codec, origin = load_codec(path, own, device), origin_of(source, work)
    if codec.config.sample_rate != SAMPLE_RATE:
        raise TrainingError(f"The speech has {SAMPLE_RATE} Hz, the codec {codec.config.sample_rate}.")
    if decoder_only:
        # A decoder is valid only for its own codes, and another run may have replaced the codec in the folder.
        origin += f" {codec_fingerprint(codec)}"
    utterances = [item for item in corpus.utterances if item.for_training]
    sampler = CropSampler(utterances, codec.config, recipe.crop_frames)
    recogniser = Recogniser.load(WEIGHTS) if adversarial else None
    objective = CodecObjective(
        codec,
        decoder_only=decoder_only,
        adversarial=adversarial,
        anchored=anchored,
        recogniser=recogniser,
        voice=VoiceLoss.load(work, SAMPLE_RATE) if voice else None,
    )
    run = CodecRun(objective.to(device), sampler, recipe, origin, workers=loader_workers(device))
    if (checkpoint := checkpoint_of(work, run)).exists():
        run.resume(checkpoint)
    elif source is None:
        initialise(codec, run.initial_audio(), run.generator())
    return run


def recipe_of(*, continued: bool, adversarial: bool = False, anchored: bool = False) -> CodecRecipe:
    """Return the recipe of a kind of training, which the stages of `training/settings.py` share."""
    if anchored:
        return ANCHORED
    if adversarial:
        return ADVERSARIAL
    return CONTINUED if continued else CodecRecipe()


def checkpoint_of(work: Path, run: CodecRun) -> Path:
    """Return the path of the run's checkpoint. It contains the kind of run, since one folder may hold several."""
    kind = "fresh" if not run.origin else "decoder" if run.objective.decoder_only else "continued"
    kind += "-adversarial" if run.objective.discriminators else ""
    return work / "codec" / f"checkpoint-{kind}.pt"


def train_to_end(work: Path, run: CodecRun) -> None:
    """Run to the end of the recipe and write the codec, unless the run is already finished."""
    if run.finished and run.progress >= 1:
        print(f"finished already, after {run.step} steps; pass more --minutes to continue", flush=True)
        return
    folder, checkpoint = work / "codec", checkpoint_of(work, run)
    folder.mkdir(parents=True, exist_ok=True)
    run.finished = False
    losses: dict[str, list[float]] = defaultdict(list)  # since the last report
    reported_step, reported_elapsed, saved = run.step, run.elapsed, time.monotonic()
    while run.progress < 1:
        with tf32_and_cudnn_benchmark():
            step = run.advance()
        for name, value in step.items():
            losses[name].append(value)
        if run.step % REPORT_STEPS == 0:
            seconds = (run.elapsed - reported_elapsed) / (run.step - reported_step)
            report(run, {name: fmean(values) for name, values in losses.items()}, seconds)
            losses.clear()
            reported_step, reported_elapsed = run.step, run.elapsed
        if time.monotonic() - saved > SAVE_SECONDS:
            run.save(checkpoint)
            saved = time.monotonic()
    export(folder, run.objective.codec)
    run.finished = True
    run.save(checkpoint)


def report(run: CodecRun, means: dict[str, float], seconds: float) -> None:
    losses = " ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    used = ""
    if run.quantized_since is not None and not run.objective.decoder_only:
        used = f" least used codebook {min(run.objective.averages.used()):.0%}"
    rate = f"rate {run.rate:.3f} {seconds:.2f} s/step"
    print(f"step {run.step} {run.elapsed / 60:.1f} min {losses}{used} {rate}", flush=True)


def export(folder: Path, codec: Codec) -> None:
    """Write the codec into `folder`, replacing each file atomically.

    Trained weights are rounded to fp16. Frozen weights and codebooks keep their values, because codes depend on them.
    """
    staged = folder / "partial"
    trained = {name for name, weight in codec.named_parameters() if weight.requires_grad}
    weights = {name: _stored(weight.detach().cpu(), name in trained) for name, weight in codec.state_dict().items()}
    write_codec(staged, weights, codec.config)
    for name in ("codec_config.json", "codec.safetensors"):
        (staged / name).replace(folder / name)
    staged.rmdir()


def _stored(weight: Tensor, trained: bool) -> Tensor:
    half = weight.to(torch.float16)
    return half if trained or torch.equal(half.float(), weight) else weight.float()


def held_out_for_checks(corpus: Corpus) -> list[Utterance]:
    """Return some held-out utterances for checking, spread over the corpus."""
    kept = [item for item in corpus.utterances if not item.for_training]
    return kept[:: max(1, math.ceil(len(kept) / CHECKED_UTTERANCES))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--minutes", type=positive, default=90, help="of training, all its parts together")
    parser.add_argument("--steps", type=positive_int, help="stop after this many steps, or when --minutes have passed")
    parser.add_argument("--batch", type=positive_int, help="crops a step; 4 on a CPU, 32 on a CUDA device")
    parser.add_argument("--setting", choices=SETTINGS, default="full", help="the sizes of a new codec")
    parser.add_argument("--from", dest="source", type=Path, metavar="FOLDER", help="continue training from this codec")
    parser.add_argument("--decoder-only", action="store_true", help="leave the codes as they are")
    parser.add_argument("--adversarial", action="store_true", help="with discriminators; needs --from")
    parser.add_argument("--voice", action="store_true", help="with losses of voice and pitch; needs --decoder-only")
    parser.add_argument("--anchored", action="store_true", help="keep most semantic codes; needs --from")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.decoder_only and args.source is None:
        parser.error("--decoder-only needs --from FOLDER: a codec whose codes are to stay valid.")
    if args.adversarial and args.source is None:
        parser.error("--adversarial needs --from FOLDER: discriminators come after the codes carry pitch.")
    if args.voice and not args.decoder_only:
        parser.error("--voice needs --decoder-only: its encoders judge a decoder whose codes stay.")
    if args.anchored and (args.source is None or args.decoder_only):
        parser.error("--anchored needs --from FOLDER, and not --decoder-only, which keeps all codes anyway.")
    if args.threads:
        torch.set_num_threads(args.threads)
    device = training_device()
    recipe = recipe_of(continued=args.source is not None, adversarial=args.adversarial, anchored=args.anchored)
    recipe = replace(recipe, minutes=args.minutes, steps=args.steps or math.inf, batch=args.batch or BATCH[device])
    with exit_with_message():
        _train(args, recipe, device)


def _train(args: argparse.Namespace, recipe: CodecRecipe, device: str) -> None:
    corpus = Corpus.load(args.work / "data")
    run = open_run(
        args.work,
        recipe,
        corpus,
        source=args.source,
        decoder_only=args.decoder_only,
        adversarial=args.adversarial,
        voice=args.voice,
        anchored=args.anchored,
        device=device,
        config=SETTINGS[args.setting].codec,
    )
    print(
        f"{sum(p.numel() for p in run.objective.codec.parameters()) / 1e6:.2f} M parameters on {device}, "
        f"from step {run.step}, {run.elapsed / 60:.1f} minutes in",
        flush=True,
    )
    train_to_end(args.work, run)
    if kept := held_out_for_checks(corpus):
        quality = held_out_quality(run.objective.codec, kept, run.objective.spectral)
        print(f"{len(kept)} utterances kept from training: {quality}", flush=True)


if __name__ == "__main__":
    main()
