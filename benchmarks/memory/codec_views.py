"""Memory and exactness of the codec's views.

    python -m benchmarks.memory.codec_views

At S2-Pro's sizes, with random weights in the release's layout: MiB of the file, of each view's weights and of a process
that loaded it; whether codes and audio are bit-identical to the whole codec's; and the share of codes that change in
bf16. For the bundled codec: the same share with trained weights, and the speed of its streaming decoder. Each
measurement runs in its own process.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks._report import VIEW_COLUMNS, common_threads, save, torch_threads, view_rows
from benchmarks.child_process import run_module
from benchmarks.memory.codec_release import write_release
from benchmarks.memory.process import process_mib
from benchmarks.speed._shared import Table
from engine.codec.codec import CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.families.s2.codec import codec_files, load_codec, load_codec_decoder, load_codec_encoder
from engine.release.hub import BUNDLED

LOADERS = {"whole": load_codec, "encoder": load_codec_encoder, "decoder": load_codec_decoder}
FRAMES = 32  # of the clip and of the codes that each view runs on (1.5 s)
MIB = 2**20


def clip(samples: int, sample_rate: int) -> Tensor:
    """Return speech-like audio `[1, 1, samples]` with gliding pitch, three resonances, syllables and breath noise."""
    generator = torch.Generator().manual_seed(1)
    t = torch.arange(samples) / sample_rate
    pitch = 120 + 30 * torch.sin(2 * torch.pi * 0.7 * t) + 4 * torch.sin(2 * torch.pi * 5 * t)
    phase = torch.cumsum(pitch / sample_rate, 0)
    voice = torch.zeros(samples)
    for harmonic in range(1, 40):
        weight = sum(1 / (1 + ((harmonic * pitch - centre) / 120) ** 2) for centre in (600, 1400, 2600))
        voice += weight * torch.sin(2 * torch.pi * harmonic * phase)
    envelope = torch.sin(2 * torch.pi * 2 * t).clamp(min=0) ** 0.5
    breath = 0.05 * torch.randn(samples, generator=generator)
    return (0.15 * envelope * (voice + breath))[None, None]


def some_codes(config: CodecConfig, frames: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.stack([torch.randint(size, (1, frames), generator=generator) for size in config.codebook_sizes], 1)


@torch.inference_mode()
def measure(view: str, folder: Path) -> dict[str, Any]:
    """Load one view in this new process and run it. Write its outputs into the folder and return the figures."""
    config = CodecConfig.s2_pro()
    before, start = process_mib("VmRSS"), time.perf_counter()
    module: Any = LOADERS[view](folder / "codec.pth", config)
    seconds = time.perf_counter() - start
    figures = {
        "weights_mib": sum(parameter.nbytes for parameter in module.parameters()) / MIB,
        "loaded_mib": process_mib("VmRSS") - before,
        "load_seconds": seconds,
        "threads": torch_threads(),
    }
    if not isinstance(module, CodecDecoder):
        torch.save(module.encode(clip(FRAMES * config.frame_length, config.sample_rate)), folder / f"{view}_codes.pt")
    if not isinstance(module, CodecEncoder):
        torch.save(module.decode(some_codes(config, FRAMES)), folder / f"{view}_audio.pt")
    return figures


def changed(path: Path, config: CodecConfig, frames: int) -> dict[str, float]:
    """Return the shares of a clip's codes that change when the encoder runs in bf16."""
    audio = clip(frames * config.frame_length, config.sample_rate)
    encoder = load_codec_encoder(path, config)
    codes = encoder.encode(audio)
    for weight in encoder.parameters():
        weight.data = weight.bfloat16()
    rough = encoder.encode(audio.bfloat16())
    differ = codes != rough
    return {
        "frames": frames,
        "distinct_semantic_codes": len(codes[:, 0].unique()),
        "semantic": differ[:, 0].float().mean().item(),
        "all": differ.float().mean().item(),
    }


def decoder_speed(path: Path, config: CodecConfig) -> list[dict[str, float]]:
    """Return the streaming decoder's milliseconds per chunk on one thread, by frames in the chunk."""
    torch.set_num_threads(1)
    decoder, rows = load_codec_decoder(path, config), []
    codes = some_codes(config, 96)
    for frames in (1, 3, 6, 12, 24):
        state, times = decoder.init_state(), []
        for chunk in (*codes.split(frames, 2), *codes.split(frames, 2)):
            start = time.perf_counter()
            decoder.decode_step(chunk, state)
            times.append(time.perf_counter() - start)
        seconds = statistics.median(times[len(times) // 2 :])
        rows.append({"frames": frames, "ms": seconds * 1e3, "times_real_time": frames / config.frame_rate / seconds})
    return rows


def in_new_process(task: str, folder: Path) -> Any:
    """Run one of this module's tasks in a new process and return its result."""
    return run_module("benchmarks.memory.codec_views", "--task", task, "--folder", str(folder))


def run_task(task: str, folder: Path) -> Any:
    if task == "write":
        write_release(folder / "codec.pth", CodecConfig.s2_pro())
        return (folder / "codec.pth").stat().st_size / MIB
    if task == "bf16":
        return changed(folder / "codec.pth", CodecConfig.s2_pro(), 2 * FRAMES)
    if task == "bundled-bf16":
        return changed(*codec_files(BUNDLED), frames=300)
    if task == "bundled-speed":
        return decoder_speed(*codec_files(BUNDLED))
    return measure(task, folder)


def same(folder: Path, view: str, what: str) -> bool:
    return torch.equal(torch.load(folder / f"{view}_{what}.pt"), torch.load(folder / f"whole_{what}.pt"))


def report(folder: Path) -> dict[str, Any]:
    """Measure everything, print the tables and return the figures."""
    file_mib = in_new_process("write", folder)
    views = {view: in_new_process(view, folder) for view in LOADERS}
    exact = {
        "whole": None,
        "encoder": same(folder, "encoder", "codes"),
        "decoder": same(folder, "decoder", "audio"),
    }
    for view, figures in views.items():
        figures["bit_identical"] = exact[view]
    found: dict[str, Any] = {
        "threads": common_threads(of["threads"] for of in views.values()),
        "file_mib": file_mib,
        "views": views,
        "bf16": {"S2-Pro sizes, random weights": in_new_process("bf16", folder)},
    }
    if (BUNDLED / "codec.safetensors").is_file():
        found["bf16"]["bundled codec"] = in_new_process("bundled-bf16", folder)
        found["bundled_decoder"] = in_new_process("bundled-speed", folder)
    for table in tables(found):
        table.show(found["threads"])
    return found


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return the tables that are printed and published."""
    rough = [[name, of["frames"], f"{of['semantic']:.1%}", f"{of['all']:.1%}"] for name, of in found["bf16"].items()]
    title = f"At S2-Pro's sizes with random weights; the file has {found['file_mib']:,.1f} MiB"
    made = [
        Table(title, VIEW_COLUMNS, view_rows(found["views"])),
        Table("Codes that change in bf16", ["codec", "frames", "semantic codes", "all codes"], rough),
    ]
    if "bundled_decoder" in found:
        speed = [[row["frames"], row["ms"], row["times_real_time"]] for row in found["bundled_decoder"]]
        title = "The bundled codec's streaming decoder, one thread"
        made.append(Table(title, ["frames a chunk", "ms a chunk", "times real time"], speed))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the codec's views.")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="keep the 1.8 GiB test file here instead of in a temporary folder")
    options = parser.parse_args()
    if options.task is not None:
        print(json.dumps(run_task(options.task, options.folder)))
    elif options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        save("codec_views", report(options.folder))
    else:
        with tempfile.TemporaryDirectory() as folder:
            save("codec_views", report(Path(folder)))


if __name__ == "__main__":
    main()
