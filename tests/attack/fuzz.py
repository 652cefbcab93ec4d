"""Coverage-guided fuzzing of the parsers (Atheris, libFuzzer), each in its own process, seeded with valid inputs.

python -m tests.attack.fuzz TARGET [options of libFuzzer]     one of them by hand
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.attack.attack import Attack, Broken, Skipped

RUNS = 20_000  # inputs of one case, or as many as its time allows
VALID_SECONDS = 45
SLOWEST = 5  # seconds of one input
MEGABYTES = 1_000  # of the whole process, mostly its imports
LONGEST = 20_000  # bytes of one input
OURS = ["engine", "web.identity", "web.tabs.library", "zipfile"]  # packages instrumented for coverage

Try = Callable[[bytes], object]


def _codes() -> Try:
    from engine.codes import codes_from_bytes

    return codes_from_bytes


def _voice() -> Try:
    """Correct the checksum, so that the content after it is read."""
    from hashlib import sha256

    from engine.voice import Voice

    return lambda data: Voice.from_bytes(data + sha256(data).digest())


def _script(ending: str) -> Try:
    from studio.script import parse_file

    return lambda data: parse_file(data, f"script{ending}")


def _archive() -> Try:
    from studio.voices.voice_archive import VoiceArchive

    path = Path(tempfile.mkdtemp()) / "archive.zip"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for _ in VoiceArchive(path, path.name).voice_files():
            pass

    return read


def _config() -> Try:
    """Read the bytes as each of a release's JSON files."""
    from engine.codec.config import CodecConfig
    from engine.families.s2.config import parse_dual_ar, parse_omni
    from engine.release.profile import Profile

    folder = Path(tempfile.mkdtemp())
    dual_ar = partial(parse_dual_ar, semantic_start_id=10, semantic_end_id=20)

    def read(data: bytes) -> None:
        for name in ("reprise.json", "codec_config.json"):
            (folder / name).write_bytes(data)
        _accept_refusal(Profile.load, folder)
        _accept_refusal(CodecConfig.from_json, folder / "codec_config.json")
        values = None
        with suppress(ValueError, RecursionError):  # the two calls above refuse invalid JSON
            values = json.loads(data)
        for parse in (parse_omni, dual_ar):
            if isinstance(values, dict):
                _accept_refusal(parse, values)

    return read


def _range() -> Try:
    from web.downloads.links import parse_range

    return lambda data: parse_range(data.decode("latin-1"), 1_000)


def _key() -> Try:
    from web.identity.owners import OwnerResolver

    owners = OwnerResolver("browser", b"a secret of this attack")
    return lambda data: owners.resolve(None, data.decode("latin-1"))


TARGETS: dict[str, Callable[[], Try]] = {
    "codes": _codes,
    "voice": _voice,
    "txt": partial(_script, ".txt"),
    "md": partial(_script, ".md"),
    "srt": partial(_script, ".srt"),
    "vtt": partial(_script, ".vtt"),
    "archive": _archive,
    "config": _config,
    "range": _range,
    "key": _key,
}


def seed_inputs(target: str) -> Iterator[bytes]:
    """Seed inputs of the fuzzer."""
    from engine.codes import codes_to_bytes
    from tests.attack.inputs import archives, scripts
    from tests.storage.making import codes, voice

    match target:
        case "codes":
            yield codes_to_bytes(codes())
        case "voice":
            yield voice(references=1).to_bytes()[:-32]
        case "archive":
            yield archives.packed([("a.voice", b"a"), ("b/c.voice", b"b")])
        case "config":
            fixtures = Path(__file__).parents[1] / "fixtures" / "s2_tiny"
            yield from ((fixtures / name).read_bytes() for name in ("config.json", "codec_config.json"))
        case "range":
            yield b"bytes=1-2"
        case "key":
            yield b"0" * 32 + b".signature"
        case _:
            yield from scripts.WHOLE


def _accept_refusal(call: Callable[[Any], object], value: Any) -> None:
    from engine.errors import RepriseError

    try:
        call(value)
    except RepriseError:
        return


def _cases(seed: int, count: int) -> Iterator[tuple[str, int]]:
    """Each target in turn, with a new seed in each round."""
    names = list(TARGETS)
    for index in range(count):
        yield names[index % len(names)], seed + index // len(names)


def _fuzz(case: tuple[str, int]) -> int:
    """Fuzz a target. Returns the number of inputs tried. Raises Broken with the output of libFuzzer."""
    if find_spec("atheris") is None:
        raise Skipped("coverage guidance needs Atheris, which there is for Linux on x86-64")
    target, seed = case
    corpus, kept = Path("corpus"), Path("kept")
    for folder in (corpus, kept):
        folder.mkdir()
    for number, data in enumerate(seed_inputs(target)):
        (corpus / str(number)).write_bytes(data)
    limits = [f"-runs={RUNS}", f"-max_total_time={VALID_SECONDS}", f"-timeout={SLOWEST}", f"-rss_limit_mb={MEGABYTES}"]
    more = [f"-seed={seed + 1}", f"-max_len={LONGEST}", f"-artifact_prefix={kept}/", str(corpus)]
    command = [sys.executable, "-m", "tests.attack.fuzz", target, *limits, *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        inputs = [f"{path.name}: {path.read_bytes()!r}"[:8_000] for path in sorted(kept.iterdir())]
        raise Broken(
            "\n".join([*inputs, done.stderr[-2_000:], done.stdout[-2_000:], f"{target}: {_first_error(done.stdout)}"])
        )
    tried = re.search(r"Done (\d+) runs", done.stderr)
    return int(tried[1]) if tried else 1


def _first_error(printed: str) -> str:
    """The parser's error as printed by Atheris, else libFuzzer's message."""
    _, _, after = printed.partition("Uncaught Python exception: ===")
    return next((line for line in after.splitlines() if line.strip()), "too slow, too large or died")


FUZZ = Attack(
    "fuzz", "parsers with coverage guidance (Atheris)", _cases, _fuzz, len(TARGETS), 4.0 * VALID_SECONDS, megabytes=None
)


def main() -> None:
    """Run libFuzzer, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=OURS):
        for name in ("studio.script", "engine.voice", "web.downloads.links", "studio.voices.voice_archive"):
            import_module(name)
        attempt = TARGETS[sys.argv[1]]()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: _accept_refusal(attempt, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
