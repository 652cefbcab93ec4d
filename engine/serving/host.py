"""Memory and cores of the machine that this process can use."""

from contextlib import suppress
from pathlib import Path

_CONTAINER = "sys/fs/cgroup"
# Files of a container's limit of memory and of what is in use, and the name of the pages of files in `memory.stat`:
# cgroup v2, and v1, which some hosts of rented GPUs still have.
_MEMORY = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that can be allocated without swapping, within the limit of a container; None if the system does
    not say, as on systems other than Linux.

    root: folder of `proc` and `sys`.
    """
    found = (_of_machine(root / "proc/meminfo"), _of_container(root / _CONTAINER))
    return min((free for free in found if free is not None), default=None)


def container_cores(root: Path = Path("/")) -> int | None:
    """Return the number of cores whose time a container may use, at least 1; None if it has no such limit.

    Such a limit, as of `docker run --cpus`, does not change the number of cores that programs see. root: of `sys`.
    """
    folder = root / _CONTAINER
    with suppress(OSError, ValueError):  # of `max`: no limit
        time, period = map(int, (folder / "cpu.max").read_text().split())
        return max(1, time // period)
    with suppress(OSError, ValueError):  # not cgroup v1
        time, period = (int((folder / f"cpu/cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return max(1, time // period) if time > 0 else None
    return None


def _of_machine(path: Path) -> int | None:
    kilobytes = _values(path).get("MemAvailable:")
    return None if kilobytes is None else kilobytes << 10


def _of_container(folder: Path) -> int | None:
    for limit_name, used_name, stat, file_pages in _MEMORY:
        with suppress(OSError, ValueError):  # of `max`: no limit
            limit, used = (int((folder / name).read_text()) for name in (limit_name, used_name))
            reclaimable = _values(folder / stat).get(file_pages, 0)
            return max(0, limit - used + reclaimable)
    return None


def _values(path: Path) -> dict[str, int]:
    """Read a file with a name and a number on each line."""
    with suppress(OSError, ValueError, IndexError):
        return {parts[0]: int(parts[1]) for parts in map(str.split, path.read_text().splitlines())}
    return {}
