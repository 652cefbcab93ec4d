"""Memory and cores of the machine that this process can use."""

from contextlib import suppress
from pathlib import Path

_CONTAINER = "sys/fs/cgroup"


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that can be allocated without swapping, within the limit of a container (cgroup v2); None if
    the system does not say, as on systems other than Linux.

    root: folder of `proc` and `sys`.
    """
    found = (_of_machine(root / "proc/meminfo"), _of_container(root / _CONTAINER))
    return min((free for free in found if free is not None), default=None)


def container_cores(root: Path = Path("/")) -> int | None:
    """Return the number of cores whose time a container (cgroup v2) may use, at least 1; None if it has no such limit.

    Such a limit, as of `docker run --cpus`, does not change the number of cores that programs see. root: of `sys`.
    """
    with suppress(OSError, ValueError):  # of `max`: no limit
        time, period = map(int, (root / _CONTAINER / "cpu.max").read_text().split())
        return max(1, time // period)
    return None


def _of_machine(path: Path) -> int | None:
    kilobytes = _values(path).get("MemAvailable:")
    return None if kilobytes is None else kilobytes << 10


def _of_container(folder: Path) -> int | None:
    with suppress(OSError, ValueError):  # of `max`: no limit
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
        reclaimable = _values(folder / "memory.stat").get("inactive_file", 0)  # pages of files
        return max(0, limit - used + reclaimable)
    return None


def _values(path: Path) -> dict[str, int]:
    """Read a file with a name and a number on each line."""
    with suppress(OSError, ValueError, IndexError):
        return {parts[0]: int(parts[1]) for parts in map(str.split, path.read_text().splitlines())}
    return {}
