"""The files of containers and Spaces agree with the rest of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from typer.main import get_command

from app import main
from scripts.lock import FILES, applies, read_requirements
from tests.paths import ROOT
from tests.test_imports import RUN_TIME

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
# Read by libraries, or by the page without an option.
OTHER_VARIABLES = set("HF_TOKEN HF_HOME PATH PYTHONUNBUFFERED XDG_CACHE_HOME FORWARDED_ALLOW_IPS REPRISE_AUTH".split())
RUN_TIME_FILES = ("requirements.txt", "requirements-extra.txt")
DEPLOY = (ROOT / "docs" / "deploy.md").read_text("utf-8")


def variables() -> set[str]:
    """The environment variables of the options."""
    found = [getattr(option, "envvar", None) for option in get_command(main).params]
    return {name for names in found for name in ([names] if isinstance(names, str) else names or [])}


def test_image_contains_all_run_time_packages() -> None:
    copied = set(re.findall(r"^COPY (?:\S+ )*?(\w+)/ /app/\w+/$", DOCKERFILE, re.M))
    assert copied == {*RUN_TIME, "assets"} - {"app"}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} >= {
        *copied,
        "app.py",
        *RUN_TIME_FILES,
    }
    assert re.search(rf"^COPY {' '.join(RUN_TIME_FILES)} requirements-lock.txt /build/$", DOCKERFILE, re.M)


def test_variables_of_image_and_compose_are_options() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    named = set(compose["services"]["app"]["environment"])
    block = re.search(r"^ENV PATH=.*?[^\\]$", DOCKERFILE, re.M | re.S)
    assert block is not None
    named |= set(re.findall(r"(\w+)=", block.group()))
    named |= set(re.findall(r"\bREPRISE_\w+", DEPLOY))
    assert named - OTHER_VARIABLES <= variables()
    assert compose["services"].keys() == {"app", "database"}


def test_document_lists_the_variables_of_all_options() -> None:
    listed = DEPLOY.split("## Options as environment variables\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`((?:REPRISE|GRADIO)_\w+)", listed)) == variables() | {"REPRISE_AUTH"}


def test_compiled_code_is_kept_in_a_mounted_volume() -> None:
    """The root file system is read-only: what libraries keep in the user's cache folder must be on a volume."""
    app = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["app"]
    assert app["read_only"]
    mounted = [volume.partition(":")[2] for volume in app["volumes"]]
    kept = re.findall(r"(?:HF_HOME|XDG_CACHE_HOME)=(\S+)", DOCKERFILE)
    assert len(kept) == 2
    assert all(any(Path(folder).is_relative_to(volume) for volume in mounted) for folder in kept)


@pytest.mark.parametrize("name", FILES)
def test_lock_file_satisfies_the_requirements(name: str) -> None:
    lines = (ROOT / "requirements-lock.txt").read_text("utf-8").splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    for wanted in filter(applies, read_requirements(ROOT / name)):
        assert canonicalize_name(wanted.name) in locked, f"python -m scripts.lock: {wanted.name}"
        assert wanted.specifier.contains(Version(locked[canonicalize_name(wanted.name)])), wanted


def test_systemd_accepts_the_unit_file(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    found = re.search(r"```ini\n(.*?)```", DEPLOY, re.S)
    assert found is not None
    unit = tmp_path / "reprise.service"
    unit.write_text(found.group(1).replace("%h/reprise/.venv/bin/python", sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--user", unit],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    complaints = [
        line for line in verified.stderr.splitlines() if unit.name in line
    ]  # not those about systemd's own units
    assert (verified.returncode, complaints) == (0, [])


def find_python(*candidates: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REPRISE_PYTHON": " ".join(map(str, candidates))}
    return subprocess.run([ROOT / "scripts" / "find-python"], env=environment, capture_output=True, text=True)


def executable(path: Path, script: str) -> Path:
    path.write_text(script)
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("missing", ["_ctypes", "_sqlite3", "_ssl"])
def test_python_that_was_built_without_a_module_is_not_chosen(missing: str, tmp_path: Path) -> None:
    """As version managers build it where a library's headers are missing."""
    (tmp_path / f"{missing}.py").write_text("raise ImportError")
    python = executable(tmp_path / "python", f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    assert find_python(python, sys.executable).stdout.strip() == sys.executable
    alone = find_python(python)
    assert alone.returncode == 1
    assert "with the modules ctypes, sqlite3 and ssl" in alone.stderr


@pytest.mark.parametrize(("variable", "value"), [("SOABI", "cpython-312-x86_64-linux-musl"), ("Py_GIL_DISABLED", 1)])
def test_python_without_wheels_is_not_chosen(variable: str, value: object, tmp_path: Path) -> None:
    built = f"import sysconfig; sysconfig.get_config_vars()[{variable!r}] = {value!r}"
    python = executable(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} "$1" "{built}\n$2"\n')
    assert find_python(python, sys.executable).stdout.strip() == sys.executable
    assert "PyTorch is not published for musl" in find_python(python).stderr


def test_python_built_with_optimizations_is_preferred(tmp_path: Path) -> None:
    """To a newer one and to one that comes earlier on PATH: pyenv builds without them."""

    def build(folder: str, name: str, options: str) -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / name
        built = (
            "import sys, sysconfig; sysconfig.get_config_vars()['CONFIG_ARGS'] = '" + options + "'; "
            f"sys.base_prefix, sys.executable = '/opt/python', '{path}'"
        )
        return executable(path, f'#!/bin/sh\nexec {sys.executable} "$1" "{built}\n$2"\n')

    def found_on_path(*folders: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": ":".join(str(tmp_path / folder) for folder in folders)}
        return subprocess.run([ROOT / "scripts" / "find-python"], env=environment, capture_output=True, text=True)

    newest = build("first", "python3.13", "")
    build("first", "python3.11", "")
    optimized = build("second", "python3.11", "--enable-optimizations")
    chosen = found_on_path("first", "second")
    assert (chosen.stdout.strip(), chosen.stderr) == (str(optimized), "")
    alone = found_on_path("first")
    assert alone.stdout.strip() == str(newest)
    assert "without --enable-optimizations" in alone.stderr
    assert find_python(newest, optimized).stdout.strip() == str(newest)  # named by the user


def test_environment_whose_python_is_gone_is_made_and_filled_again(tmp_path: Path) -> None:
    """As after an upgrade of the system, which leaves a link to nothing. A fake Python makes its environments."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.txt", "requirements-lock.txt"):
        (tmp_path / name).touch()
    fake, calls = tmp_path / "fake", tmp_path / "calls"
    fake.write_text(
        f'#!/bin/sh\necho "$@" user="$PIP_USER" >>{calls}\n'
        f'[ "$2" != venv ] || {{ rm -rf .venv; mkdir -p .venv/bin; cp {fake} .venv/bin/python; }}\n'
    )
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "find-python").write_text(f"#!/bin/sh\necho {fake}\n")
    for script in (fake, tmp_path / "scripts" / "find-python"):
        script.chmod(0o700)

    def run() -> list[str]:
        calls.write_text("")
        # Some hosts set PIP_USER, with which pip refuses to install into an environment.
        subprocess.run(
            ["make", "run"], cwd=tmp_path, env={**os.environ, "PIP_USER": "1"}, check=True, capture_output=True
        )
        assert {line.rpartition("user=")[2] for line in calls.read_text().splitlines()} == {"0"}
        return [word for word in calls.read_text().split() if word in ("venv", "install", "app.py")]

    assert run() == ["venv", "install", "app.py"]
    assert run() == ["app.py"]
    (tmp_path / ".venv" / "bin" / "python").unlink()
    (tmp_path / ".venv" / "bin" / "python").symlink_to(tmp_path / "gone")
    assert run() == ["venv", "install", "app.py"]


@pytest.mark.parametrize("name", ["app_file", "sdk_version", "python_version", "hf_oauth"])
def test_readme_has_valid_front_matter_for_a_space(name: str) -> None:
    front = yaml.safe_load((ROOT / "README.md").read_text("utf-8").split("---")[1])
    assert front["sdk"] == "gradio"
    gradio = next(
        Requirement(line)
        for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines()
        if line[:6] == "gradio"
    )
    holds = {
        "app_file": Path(ROOT, front["app_file"]).is_file(),
        "sdk_version": gradio.specifier.contains(Version(front["sdk_version"])),
        "python_version": Version(front["python_version"]) >= Version("3.11"),
        "hf_oauth": front["hf_oauth"] is True,
    }
    assert holds[name]
