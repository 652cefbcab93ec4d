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


def test_memory_limit_of_an_older_container_counts(tmp_path: Path) -> None:
    """cgroup v1, as on some hosts of rented GPUs."""
    write(tmp_path, meminfo=MEMINFO)
    folder = tmp_path / "sys/fs/cgroup/memory"
    folder.mkdir(parents=True)
    (folder / "memory.usage_in_bytes").write_text(f"{3 * MEGABYTE}\n")
    (folder / "memory.stat").write_text(f"inactive_file 5\ntotal_inactive_file {MEGABYTE}\n")
    for limit, free in ((4 * MEGABYTE, 2 * MEGABYTE), (0x7FFFFFFFFFFFF000, 8 * MEGABYTE)):
        (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        assert free_host_memory(tmp_path) == free


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


@pytest.mark.parametrize(("quota", "cores"), [("765000\n", 7), ("50000\n", 1), ("-1\n", None)])
def test_cores_of_an_older_container_are_those_of_its_limit(quota: str, cores: int | None, tmp_path: Path) -> None:
    """cgroup v1, which has -1 for no limit."""
    folder = tmp_path / "sys/fs/cgroup/cpu"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(quota)
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert container_cores(tmp_path) == cores
