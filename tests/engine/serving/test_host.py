"""Free memory of a machine and of a container, and the cores of a container."""

from pathlib import Path

import pytest

from engine.serving.host import container_cores, free_host_memory

MEMINFO = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nHugePages_Total:       0\n"
MEGABYTE = 1 << 20


def write(root: Path, **files: str) -> Path:
    names = {"meminfo": "proc/meminfo", **{name: f"sys/fs/cgroup/memory.{name}" for name in ("max", "current", "stat")}}
    for name, text in files.items():
        path = root / names[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_free_memory_is_that_of_the_machine_within_the_containers_limit(tmp_path: Path) -> None:
    assert free_host_memory(tmp_path) is None
    write(tmp_path, meminfo=MEMINFO)
    assert free_host_memory(tmp_path) == 8 * MEGABYTE
    write(tmp_path, max="max\n", current=f"{MEGABYTE}\n", stat="anon 5\ninactive_file 0\n")
    assert free_host_memory(tmp_path) == 8 * MEGABYTE
    write(tmp_path, max=f"{4 * MEGABYTE}\n", current=f"{3 * MEGABYTE}\n", stat=f"anon 5\ninactive_file {MEGABYTE}\n")
    assert free_host_memory(tmp_path) == 2 * MEGABYTE
    write(tmp_path, max=f"{MEGABYTE}\n")
    assert free_host_memory(tmp_path) == 0


def test_unreadable_figures_are_no_limit(tmp_path: Path) -> None:
    write(tmp_path, meminfo="MemAvailable: much\n", max="\n", current="1\n")
    assert free_host_memory(tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("200000 100000\n", 2), ("765000 100000\n", 7), ("50000 100000\n", 1), ("max 100000\n", None), ("\n", None)],
)
def test_cores_are_those_of_the_containers_limit(limit: str, cores: int | None, tmp_path: Path) -> None:
    assert container_cores(tmp_path) is None
    path = tmp_path / "sys/fs/cgroup/cpu.max"
    path.parent.mkdir(parents=True)
    path.write_text(limit)
    assert container_cores(tmp_path) == cores
