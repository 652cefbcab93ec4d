"""Qwen3-TTS in Reprise and in its own package, on one machine, with the same random weights at a release's sizes.

    python -m benchmarks.speed.qwen3_tts --package ENV/bin/python [--sizes 0.6B 1.7B] [--frames 8] [--rounds 2]

ENV is an environment with qwen-tts 0.1.1. The package writes releases with random weights and the sizes of
Qwen3-TTS-12Hz-*-Base, except for a smaller table of text tokens, of which a frame reads only one row. Then frames per
second are measured in turn, in several rounds: the package in fp32 and in bf16, Reprise in bf16 and in its default
precision, each in its own process, after the same prompt of a cloned voice. The MiB of the speech tokenizer's views are
measured as well. Reprise's frame rate is also compared with the memory's floor (the measured bandwidth divided by the
bytes of a frame), and with that of the whole engine, which also decodes the audio.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._report import VIEW_COLUMNS, Cell, common_threads, save, torch_threads, view_rows
from benchmarks.child_process import ROOT, run_module
from benchmarks.memory.process import process_mib
from benchmarks.speed._shared import Table

if TYPE_CHECKING:  # the package's Python does not have the engine's dependencies
    from engine.models.quantization import Precision

MIB = 2**20
CLIP_FRAMES = 100  # 8 s
SPOKEN_FRAMES = 48
WORDS = "The words that are spoken in the clip of the voice."
WIDTHS = {"0.6B": 1024, "1.7B": 2048}
"""Hidden sizes of the talker; the code predictor has the same size in both."""
TEXT = "This is a sentence to measure how many frames a second come out of the model."


def write(folder: Path, size: str) -> None:
    """Write the release of a size with the package."""
    import torch
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
        Qwen3TTSTokenizerV2Config,
        Qwen3TTSTokenizerV2Model,
    )

    sys.path.insert(0, str(ROOT / "scripts"))
    import make_qwen3_tts as made

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speech_tokenizer").mkdir(exist_ok=True)
    added = made.write_tokenizer(folder)
    values = made.config_json("base", added)
    block = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 1024}
    talker, width = values["talker_config"], WIDTHS[size]
    talker |= block | {"hidden_size": width, "intermediate_size": 3 * width}
    talker |= {"num_hidden_layers": 28, "vocab_size": 3072, "num_code_groups": 16}
    talker |= {"text_hidden_size": 2048, "text_vocab_size": 4096, "max_position_embeddings": 32_768}
    talker["rope_scaling"]["mrope_section"] = [24, 20, 20]
    shift = 2048 - made.CODES
    for name, token in talker.items():
        if name.startswith("codec_") and isinstance(token, int):
            talker[name] = token + shift
    talker["codec_language_id"] = {name: token + shift for name, token in talker["codec_language_id"].items()}
    predictor = talker["code_predictor_config"]
    predictor |= block | {"intermediate_size": 3072, "num_hidden_layers": 5, "vocab_size": 2048, "num_code_groups": 16}
    predictor |= {"layer_types": ["full_attention"] * 5, "max_position_embeddings": 65_536}
    values["speaker_encoder_config"] = {"enc_dim": width, "sample_rate": 24_000}
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**json.loads(json.dumps(values))))
    model.save_pretrained(folder, safe_serialization=True)
    made.write_json(folder / "config.json", values)
    torch.set_default_dtype(torch.float32)
    codec = Qwen3TTSTokenizerV2Model(
        Qwen3TTSTokenizerV2Config(
            encoder_config={"frame_rate": 12.5, "head_dim": 64},
            decoder_config={"hidden_size": 512, "intermediate_size": 1024, "codebook_dim": 512, "head_dim": 64},
        )
    )
    made.fill(codec, 1)
    codec.save_pretrained(folder / "speech_tokenizer", safe_serialization=True)
    (folder / "speech_tokenizer" / "preprocessor_config.json").write_text(
        json.dumps({"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24_000})
    )
    made.write_json(folder / "preprocessor_config.json", {"processor_class": "Qwen3TTSProcessor"})
    made.write_json(folder / "generation_config.json", {"temperature": 0.9, "top_k": 50, "top_p": 1.0})


def package(folder: Path, size: str, frames: int, dtype: str) -> dict[str, Any]:
    """Return the package's frames per second, from the time of `frames + 1` frames minus that of one."""
    import torch
    from qwen_tts import Qwen3TTSModel, VoiceClonePromptItem

    chosen = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    tts = Qwen3TTSModel.from_pretrained(str(folder), dtype=chosen, attn_implementation="sdpa")
    codes = torch.randint(2048, (CLIP_FRAMES, 16), generator=torch.Generator().manual_seed(0))
    item = VoiceClonePromptItem(codes, torch.zeros(WIDTHS[size], dtype=chosen), False, True, WORDS)
    tts.model.speech_tokenizer.decode = lambda _codes: ([torch.zeros(1).numpy()], 24_000)

    def seconds(count: int) -> float:
        options = {"non_streaming_mode": True, "max_new_tokens": count + 1, "min_new_tokens": count + 1}
        began = time.perf_counter()
        tts.generate_voice_clone(TEXT, voice_clone_prompt=[item], **options)
        return time.perf_counter() - began

    seconds(1)
    return {"frames": frames / (seconds(frames + 1) - seconds(1)), "threads": torch_threads()}


def reprise(folder: Path, size: str, frames: int, precision: "Precision | None") -> dict[str, Any]:
    """Return the frames per second of the engine's runner, the bound of the memory bandwidth, and the precision.

    precision: None for the engine's own choice.
    """
    import torch

    from benchmarks.speed.floor import bandwidths
    from engine.families.family import PromptReference, PromptVoice
    from engine.families.qwen3_tts.release import Qwen3TTSRelease
    from engine.models.sampling import SamplingOptions
    from engine.serving.memory import activation_dtype, choose_precision
    from engine.serving.runner.graphs import CudaGraphCapture, GraphCapture
    from engine.serving.runner.model_runner import ModelRunner
    from engine.serving.runner.prefix_cache import PrefixCache
    from engine.serving.runner.traces import TorchScriptCapture

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    bandwidth = max(bandwidths(device).values())
    release = Qwen3TTSRelease(folder)
    precision = precision or choose_precision(device, release.architecture)
    model = release.load_model(activation_dtype(precision, device), device, precision)
    for stack in (model.slow, model.fast):
        stack.prepare_for_decoding()
    capture: GraphCapture = CudaGraphCapture(device) if device.type == "cuda" else TorchScriptCapture()
    runner = ModelRunner(
        model, 2048, slots=1, positions=512, prefixes=PrefixCache(device, 0, 0), capture=capture, mode="frame"
    )
    while runner.capture_next():
        pass
    codes = torch.randint(2048, (16, CLIP_FRAMES), generator=torch.Generator().manual_seed(0))
    voice = PromptVoice([PromptReference(WORDS, codes, torch.zeros(WIDTHS[size]))])
    prompt, _ = release.prompts.conversation(voice, 512, 0).begin_turn(TEXT, 64)
    runner.begin(0, prompt, SamplingOptions(0.9, 1.0, 50), key=1)
    while not runner.prefill([0]):
        pass
    runner.step([0]).frames()
    began = time.perf_counter()
    for _ in range(frames):
        runner.step([0]).frames()
    speed = frames / (time.perf_counter() - began)
    read = frame_bytes(model, prompt.columns.shape[1])
    return {"frames": speed, "floor": bandwidth / read, "precision": precision, "threads": torch_threads()}


def spoken(folder: Path) -> dict[str, Any]:
    """Return the frames per second of the whole engine, including decoding to audio, after the first chunk."""
    import io

    import soundfile
    import torch

    from engine import Engine, SpeakOptions, Voice
    from engine.voice import Reference

    engine = Engine.load(folder, slots=1)
    codes = torch.randint(2048, (16, CLIP_FRAMES), generator=torch.Generator().manual_seed(0)).numpy()
    samples, flac = CLIP_FRAMES * engine.info.frame_length, io.BytesIO()
    soundfile.write(flac, [0.0] * samples, engine.info.sample_rate, format="FLAC")
    reference = Reference(WORDS, codes, flac.getvalue(), engine.info.sample_rate, samples / engine.info.sample_rate)
    voice = Voice("Random", (reference,), engine.info.codec_fingerprint)
    with contextlib.closing(engine), contextlib.closing(engine.speak(TEXT, voice, SpeakOptions(seed=1))) as speech:
        began, frames = 0.0, 0
        for chunk in speech:
            if began:
                frames += chunk.frames
            began = began or time.perf_counter()
            if frames >= SPOKEN_FRAMES:
                break
        return {"frames": frames / (time.perf_counter() - began), "threads": torch_threads()}


def frame_bytes(model: Any, seen: int) -> int:
    """Return the least bytes that one frame reads: the talker once, the predictor's blocks once per residual codebook,
    each of its heads once, and the keys and values of the `seen` positions.
    """
    from engine.serving.memory import held_bytes

    slow, fast, config = model.slow, model.fast, model.slow.config
    position = 2 * config.n_layer * config.n_local_heads * config.head_dim * slow.norm.weight.itemsize
    talker = sum(map(held_bytes, (slow.layers, slow.norm, slow.head, slow.text_projection)))
    a_pass = sum(map(held_bytes, (fast.layers, fast.norm, fast.project)))
    total: int = talker + (fast.num_codebooks - 1) * a_pass + held_bytes(fast.heads) + seen * position
    return total


def view(folder: Path, name: str) -> dict[str, Any]:
    """Load one view of the speech tokenizer in this process and run it. Write its outputs into the folder."""
    import torch

    from engine.families.qwen3_tts.codec_config import read_codec_config
    from engine.families.qwen3_tts.weights import load_speech_decoder, load_speech_encoder, load_speech_tokenizer

    config = read_codec_config(folder)
    load: Any = {"whole": load_speech_tokenizer, "encoder": load_speech_encoder, "decoder": load_speech_decoder}[name]
    before = process_mib("VmRSS")
    module = load(folder, config, torch.device("cpu"))
    figures = {
        "weights_mib": sum(weight.nbytes for weight in module.parameters()) / MIB,
        "loaded_mib": process_mib("VmRSS") - before,
    }
    generator = torch.Generator().manual_seed(0)
    clip = 0.1 * torch.randn(1, 1, 20 * config.frame_length, generator=generator)
    codes = torch.randint(config.codebook_size, (1, config.num_codebooks, 20), generator=generator)
    if name != "decoder":
        torch.save((module.encoder if name == "whole" else module).encode(clip), folder / f"{name}_codes.pt")
    if name != "encoder":
        torch.save((module.decoder if name == "whole" else module).decode(codes), folder / f"{name}_audio.pt")
    return figures


def run(python: str, task: str, folder: Path, options: argparse.Namespace) -> Any:
    """Run a task in a new process of the interpreter `python` and return its result."""
    arguments = ["--task", task, "--folder", str(folder), "--frames", str(options.frames)]
    return run_module("benchmarks.speed.qwen3_tts", *arguments, python=python)


def report(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, print the tables and return the figures."""
    found: dict[str, Any] = {"frames_per_second": {}}
    for size in options.sizes:
        release = folder / size
        if not (release / "config.json").exists():
            run(options.package, f"write-{size}", release, options)
        found |= {} if "views" in found else measure_views(release, options)
        found["frames_per_second"][size] = [measure_speed(release, size, options) for _ in range(options.rounds)]
    rounds = [each for of_size in found["frames_per_second"].values() for each in of_size]
    found["threads"] = common_threads(count for each in rounds for count in each["threads"].values())
    for table in tables(found):
        table.show(found["threads"])
    return found


def measure_views(release: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure MiB of the speech tokenizer's file and views, and whether the views are exact."""
    import torch

    views = {name: run(sys.executable, f"view-{name}", release, options) for name in ("whole", "encoder", "decoder")}
    for name, what in (("encoder", "codes"), ("decoder", "audio")):
        pair = [torch.load(release / f"{each}_{what}.pt") for each in (name, "whole")]
        views[name]["bit_identical"] = torch.equal(*pair)
    return {"file_mib": (release / "speech_tokenizer" / "model.safetensors").stat().st_size / MIB, "views": views}


def measure_speed(release: Path, size: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure frames per second of each program in turn, the memory's floor of the last one, and their threads."""
    found: dict[str, dict[str, Any]] = {}
    for dtype in ("fp32", "bf16"):
        found[f"package, {dtype}"] = run(options.package, f"package-{size}-{dtype}", release, options)
    ours: dict[str, Any] = {}
    for precision in ("bf16", "default"):
        ours = run(sys.executable, f"reprise-{size}-{precision}", release, options)
        found[f"Reprise, {ours['precision']}"] = ours
    found["spoken"] = run(sys.executable, "spoken", release, options)
    threads = {name: of["threads"] for name, of in found.items()}
    return {**{name: of["frames"] for name, of in found.items()}, "floor": ours["floor"], "threads": threads}


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return the tables that are printed and published: of the views, and of frames per second."""
    title = f"Qwen3-TTS's speech tokenizer, random weights; the file has {found['file_mib']:,.1f} MiB"
    return [Table(title, VIEW_COLUMNS, view_rows(found["views"])), *speed_tables(found)]


def speed_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the table of frames per second at each size."""
    for size, rounds in found["frames_per_second"].items():
        if not rounds:
            continue
        programs = [name for name in rounds[0] if ", " in name]
        ours = programs[-1]
        ratios = [(name, of) for of in programs[:2] for name in programs[2:] if name == ours or of == "package, bf16"]
        rows: list[list[Cell]] = [
            [
                i + 1,
                *(f"{each[name]:.2f}" for name in programs),
                *(f"× {each[name] / each[of]:.2f}" for name, of in ratios),
                f"{each['floor']:.2f}",
                f"{each[ours] / each['floor']:.0%}",
                f"{each['spoken']:.2f}",
            ]
            for i, each in enumerate(rounds)
        ]
        title = (
            f"Frames a second at the sizes of Qwen3-TTS-12Hz-{size}, random weights, one listener; real time is 12.5"
        )
        against = [f"{_precision(name)} by the package's {_precision(of)}" for name, of in ratios]
        last = [f"memory's floor, {_precision(ours)}", "share of it", "with sound"]
        yield Table(title, ["round", *programs, *against, *last], rows)


def _precision(program: str) -> str:
    return program.rpartition(", ")[2]


def main() -> None:
    """Measure everything, or run one task in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", help="a Python that has qwen-tts")
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", choices=WIDTHS, nargs="+", default=list(WIDTHS))
    parser.add_argument("--folder", type=Path, help="keep the releases here instead of in a temporary folder")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task is None:
        if options.package is None:
            parser.error("--package PYTHON is needed: a Python that has qwen-tts.")
        with tempfile.TemporaryDirectory() as temporary:
            save("qwen3_tts", report(options.folder or Path(temporary), options))
        return
    task, *of = options.task.split("-")
    if task == "write":
        write(options.folder, *of)
        return
    if task == "view":
        result: Any = view(options.folder, *of)
    elif task == "spoken":
        result = spoken(options.folder)
    elif task == "package":
        result = package(options.folder, of[0], options.frames, of[1])
    else:
        result = reprise(options.folder, of[0], options.frames, None if of[1] == "default" else of[1])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
