"""The import directions, checked by reading every import statement of the sources.

app → front ends (web, api, cli) → studio → storage, engine; storage → engine.voice, engine.codes, engine.errors,
engine.messages. Front ends do not import each other. Inside the engine nothing imports the engine itself, serving knows
the protocols of a family only, and models and codec know shared checks, shared layers and errors only, never each
other.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from tests.paths import ROOT

OURS = ("app", "api", "engine", "storage", "studio", "web", "cli", "training", "benchmarks", "tests")
RUN_TIME = ("app", "api", "engine", "storage", "studio", "web", "cli")


@dataclass(frozen=True)
class Rule:
    """Modules at or under `who` may import, of our own modules, only those at or under `may`."""

    who: str
    may: tuple[str, ...]
    why: str


RULES = (
    Rule("app", ("app", "web", "api", "cli", "studio", "storage", "engine"), "app.py puts the run-time parts together"),
    Rule("web", ("web", "studio", "storage", "engine"), "a front end stands on studio, storage and engine"),
    Rule("api", ("api", "studio", "storage", "engine"), "a front end stands on studio, storage and engine"),
    Rule("cli", ("cli", "studio", "storage", "engine"), "a front end stands on studio, storage and engine"),
    Rule("studio", ("studio", "storage", "engine"), "services do not depend on front ends"),
    Rule(
        "studio.script.formats",
        ("studio.script", "storage.scripts.limits", "storage.scripts.card_content", "engine.text", "engine.errors"),
        "reading and writing texts knows neither engine nor library",
    ),
    Rule(
        "storage",
        ("storage", "engine.voice", "engine.codes", "engine.errors", "engine.messages"),
        "the library knows voices, codes, errors and sentences only",
    ),
    Rule("storage.scripts.limits", (), "limits are a leaf"),
    Rule("storage.scripts.card_content", (), "the content of a card is a leaf"),
    Rule("engine", ("engine",), "the engine knows nothing of databases, HTTP or pages"),
    Rule("training", ("training", "engine"), "training makes models for the engine"),
    Rule(
        "benchmarks",
        ("benchmarks", "training", "web", "api", "cli", "studio", "storage", "engine"),
        "benchmarks measure the run-time code and the training",
    ),
    Rule("engine.errors", ("engine.messages",), "the error tree knows its sentences only"),
    Rule("engine.messages", (), "sentences are a leaf"),
    Rule("engine.files.bounded", ("engine.errors", "engine.messages"), "reading files within bounds is a leaf"),
    Rule("engine.files.cache_folder", (), "the cache folder is a leaf"),
    Rule("engine.files.tensors", ("engine.errors", "engine.files.bounded"), "reading tensors knows no model"),
    Rule("engine.layers", (), "shared layers know no model"),
    Rule("engine.checks", ("engine.errors",), "checks of configurations are a leaf"),
    Rule("engine.codes", ("engine.errors", "engine.checks"), "codes as bytes know no model"),
    Rule(
        "engine.voice",
        ("engine.codes", "engine.errors", "engine.messages", "engine.files.bounded"),
        "a voice is data: storage carries it without the engine",
    ),
    Rule(
        "engine.models",
        ("engine.models", "engine.layers", "engine.checks", "engine.errors", "engine.files.cache_folder"),
        "models know the shared checks and layers only",
    ),
    Rule(
        "engine.codec",
        ("engine.codec", "engine.layers", "engine.checks", "engine.errors", "engine.files.bounded"),
        "the codec knows the shared checks and layers only",
    ),
    Rule(
        "engine.release",
        (
            "engine.release",
            "engine.checks",
            "engine.errors",
            "engine.messages",
            "engine.files",
            "engine.models.sampling",
            "engine.text",
        ),
        "finding and reading a release knows no model family",
    ),
    Rule(
        "engine.families",
        (
            "engine.families",
            "engine.release",
            "engine.models",
            "engine.codec",
            "engine.text",
            "engine.layers",
            "engine.checks",
            "engine.errors",
            "engine.files",
        ),
        "a model family stands on models, codec and the release readers",
    ),
    Rule(
        "engine.families.family",
        ("engine.families.family", "engine.release.profile", "engine.models", "engine.codec.views"),
        "the protocols between engine and family know no family",
    ),
    Rule(
        "engine.serving",
        (
            "engine.serving",
            "engine.families.family",
            "engine.models",
            "engine.codec",
            "engine.byte_lru",
            "engine.errors",
            "engine.files.cache_folder",
        ),
        "generating frames knows the protocols of a family only, and neither text nor voices",
    ),
    Rule(
        "engine.text",
        ("engine.text", "engine.checks", "engine.errors", "engine.files.bounded"),
        "normalising and cutting texts knows no model",
    ),
    Rule(
        "engine.audio",
        (
            "engine.audio",
            "engine.text",
            "engine.byte_lru",
            "engine.errors",
            "engine.messages",
            "engine.files.bounded",
            "engine.files.hub_connection",
        ),
        "reading and writing audio knows no model",
    ),
    Rule("engine.outputs", (), "outputs are data: front ends use them without the engine"),
    Rule(
        "engine.request",
        (
            "engine.request",
            "engine.outputs",
            "engine.serving",
            "engine.families.family",
            "engine.models",
            "engine.text",
        ),
        "a request speaks through the threads of serving, with any family",
    ),
    Rule(
        "engine.conditioning",
        (
            "engine.request",
            "engine.serving",
            "engine.families.family",
            "engine.codec.postfilter",
            "engine.audio",
            "engine.text",
            "engine.voice",
            "engine.languages",
            "engine.messages",
            "engine.errors",
        ),
        "clips and voices become prompt inputs, for any family",
    ),
    Rule("engine.serving.scheduler", ("engine.errors",), "the scheduler decides, it computes nothing"),
    Rule("engine.serving.pacing", (), "pacing is arithmetic"),
    Rule("engine.languages", (), "names of languages are a leaf"),
    Rule("engine.byte_lru", (), "a cache knows nothing of what it keeps"),
)

# Third-party packages that a module must not import, and why.
FOREIGN = (
    ("engine.voice", ("torch", "torchaudio"), "a voice is data: numpy is enough"),
    ("engine.codes", ("torch",), "codes as bytes are data: numpy is enough"),
    ("engine.outputs", ("torch",), "outputs are data: numpy is enough"),
    ("engine.errors", ("torch", "numpy"), "the error tree is a leaf"),
    ("engine.files.bounded", ("torch", "numpy"), "reading files within bounds is a leaf"),
    ("engine.serving.scheduler", ("torch", "torchaudio"), "the scheduler decides, it computes nothing"),
    (
        "engine",
        ("gradio", "fastapi", "sqlalchemy", "alembic", "typer"),
        "the engine knows no database, HTTP or page",
    ),
    (
        "studio",
        ("gradio", "fastapi", "starlette", "uvicorn", "typer"),
        "services do not depend on front ends",
    ),
    ("studio.script.formats", ("torch", "numpy", "sqlalchemy"), "reading and writing texts computes nothing"),
    ("storage", ("gradio", "fastapi", "torch", "typer"), "the library knows no page and computes nothing"),
)

# Imported on demand; if one is missing, an error names it.
OPTIONAL = {"faster_whisper", "mcp", "perth", "ray", "spaces", "torchao", "triton", "wyoming"}
DISTRIBUTED_AS = {"perth": "resemble-perth"}  # name of the distribution, if it differs

# Only the front ends may import the engine as a whole; modules that it depends on must not.
ENGINE_ITSELF = "engine.engine"


@dataclass(frozen=True)
class Import:
    """One import: the importing module, the line, and the absolute name of the imported module."""

    importer: str
    line: int
    target: str


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(root: Path, packages: tuple[str, ...] = OURS) -> Iterator[Path]:
    for package in packages:
        if (single := root / f"{package}.py").exists():
            yield single
        yield from sorted((root / package).rglob("*.py"))


@cache
def imports_of(path: Path, root: Path) -> list[Import]:
    """Return all imports of a file, also those in functions, for type checkers, and with importlib by literal name."""
    return list(_read_imports(path, root))


def _read_imports(path: Path, root: Path) -> Iterator[Import]:
    name = module_name(path, root)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"), filename=str(path))):
        for target in _targets(node, package, root):
            yield Import(name, getattr(node, "lineno", 0), target)


def _targets(node: ast.AST, package: str, root: Path) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = _absolute(module or "", level, package)
            for alias in names:
                # `from engine import voice` imports a module, `from engine import Engine` a name in one.
                full = f"{base}.{alias.name}"
                yield full if _is_module(full, root) else base
        case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")):
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                yield node.args[0].value


def _absolute(module: str, level: int, package: str) -> str:
    if level == 0:
        return module
    parts = package.split(".")
    base = parts[: len(parts) - (level - 1)]
    return ".".join([*base, module] if module else base)


@cache
def _is_module(name: str, root: Path) -> bool:
    path = root.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _under(name: str, tree: str) -> bool:
    return name == tree or name.startswith(f"{tree}.")


def broken(found: Import) -> Iterator[str]:
    """Yield a sentence for each rule that this import breaks."""
    where = f"{found.importer} (line {found.line}) imports {found.target}"
    if any(_under(found.target, ours) for ours in OURS):
        for rule in RULES:
            if _under(found.importer, rule.who) and not any(_under(found.target, may) for may in rule.may):
                allowed = ", ".join(rule.may) or "nothing of ours"
                yield f"{where}, but {rule.who} may import {allowed}: {rule.why}"
        # `engine` itself is the public API, which imports the engine.
        whole = found.target == "engine" or _under(found.target, ENGINE_ITSELF)
        if whole and found.importer.startswith("engine."):
            yield f"{where}, but nothing inside the engine may import the engine itself"
    for who, packages, why in FOREIGN:
        if _under(found.importer, who) and any(_under(found.target, package) for package in packages):
            yield f"{where}: {why}"


def violations(root: Path) -> list[str]:
    ruled = tuple(package for package in OURS if package != "tests")  # tests may import everything
    return [sentence for path in sources(root, ruled) for found in imports_of(path, root) for sentence in broken(found)]


def test_sources_follow_the_import_rules() -> None:
    assert list(sources(ROOT, ("engine",))), "no sources found: the test would check nothing"
    assert violations(ROOT) == []


def _tree(root: Path, files: dict[str, str]) -> Path:
    """Write a small source tree; parent packages get an `__init__.py`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(root).parents:
            if parent.name:
                (root / parent / "__init__.py").touch()
        path.write_text(text, "utf-8")
    return root


ALLOWED = {
    "app.py": "import torch\nfrom engine import Engine\nfrom storage import library\nimport web.page",
    "web/page.py": "import gradio\nfrom engine.engine import Engine\nfrom storage import library",
    "storage/voices/library.py": "from engine.voice import Voice\nfrom engine import errors\nimport sqlalchemy",
    "engine/engine.py": "from .codec import encoder\nfrom engine.models.slow_ar import SlowAR\nimport torch",
    "engine/voice.py": "import numpy\nfrom .errors import InvalidCodes",
    "engine/errors.py": "",
    "engine/checks.py": "from engine.errors import InvalidConfig",
    "engine/models/slow_ar.py": "from ..checks import check_int\nfrom . import layers\nimport torch",
    "engine/models/transformer.py": "",
    "engine/codec/encoder.py": "from engine.checks import check_int",
    "training/train.py": "from engine.codec.encoder import Encoder",
    "benchmarks/speed.py": "import training.train\nfrom engine import Engine",
}


def test_valid_tree_passes(tmp_path: Path) -> None:
    assert violations(_tree(tmp_path, ALLOWED)) == []


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("engine/codec/encoder.py", "from engine.models.transformer import RMSNorm", "codec.encoder (line 1)"),
        ("engine/codec/encoder.py", "from ..models import layers", "engine.codec may import"),
        ("engine/models/slow_ar.py", "import engine.codec.encoder", "engine.models may import"),
        ("engine/models/slow_ar.py", "from engine import voice", "engine.models may import"),
        ("engine/models/slow_ar.py", "def f():\n    from engine.engine import Engine", "line 2"),
        ("engine/serving/runner/model_runner.py", "from ...engine import Engine", "the engine itself"),
        ("engine/serving/runner/model_runner.py", "from engine import Engine", "the engine itself"),
        ("engine/checks.py", "from engine import models", "engine.checks may import"),
        ("engine/voice.py", "import torch.nn.functional as F", "numpy is enough"),
        ("engine/serving/scheduler.py", "import torch", "computes nothing"),
        ("engine/serving/turn.py", "from engine.families.s2.prompt import S2Prompts", "engine.serving may import"),
        ("engine/families/family.py", "from engine.families.s2 import prompt", "engine.families.family may import"),
        ("engine/text/clean.py", "from engine.models import layers", "engine.text may import"),
        ("engine/audio.py", "from engine.models import layers", "engine.audio may import"),
        ("engine/request/speech.py", "from engine.audio import Clip", "engine.request may import"),
        ("engine/audio.py", "import gradio as gr", "no database, HTTP or page"),
        ("engine/audio.py", "import storage", "engine may import"),
        ("storage/voices/library.py", "from engine import Engine", "storage may import"),
        ("storage/voices/library.py", "from engine.audio import Clip", "storage may import"),
        ("storage/voices/library.py", "from web.page import Page", "storage may import"),
        ("web/page.py", "from training import train", "web may import"),
        ("web/page.py", "import importlib\nimportlib.import_module('benchmarks.speed')", "web may import"),
        ("web/page.py", "import app", "web may import"),
        ("web/page.py", "import cli.speak", "web may import"),
        ("studio/takes.py", "import web.page", "studio may import"),
        ("studio/takes.py", "import gradio", "do not depend on front ends"),
        ("studio/script/formats/plain.py", "from storage import Storage", "studio.script.formats may import"),
        ("storage/scripts/limits.py", "from engine import errors", "storage.scripts.limits may import"),
        ("app.py", "import benchmarks.speed", "app may import"),
        ("training/train.py", "import benchmarks.speed", "training may import"),
        ("engine/audio.py", "from tests import helpers", "engine may import"),
    ],
)  # fmt: skip
def test_each_violation_is_detected(tmp_path: Path, file: str, line: str, says: str) -> None:
    root = _tree(tmp_path, {**ALLOWED, "engine/audio.py": "", file: line})
    found = violations(root)
    assert found, f"not caught: {file}: {line}"
    assert any(says in sentence for sentence in found), found


def _distributions(requirements: Path) -> set[str]:
    names = set()
    for line in requirements.read_text("utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text and not text.startswith("-"):
            for mark in "=<>~![; ":
                text = text.partition(mark)[0]
            names.add(_normal(text))
    return names


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_requirements_include_all_run_time_imports() -> None:
    """An import must not rely on another package's dependencies, which may change with any release."""
    named = _distributions(ROOT / "requirements.txt")
    carried_by = metadata.packages_distributions()
    unnamed = set()
    for path in sources(ROOT, RUN_TIME):
        for found in imports_of(path, ROOT):
            top = found.target.partition(".")[0]
            if top in OURS or top in sys.stdlib_module_names or top in OPTIONAL:
                continue
            if not named & {_normal(name) for name in carried_by.get(top, [top])}:
                unnamed.add(f"{found.importer} (line {found.line}) imports {top}")
    assert unnamed == set(), "requirements.txt does not name these"
    offered = _distributions(ROOT / "requirements-dev.txt") | _distributions(ROOT / "requirements-extra.txt")
    assert offered >= {_normal(DISTRIBUTED_AS.get(name, name)) for name in OPTIONAL}
