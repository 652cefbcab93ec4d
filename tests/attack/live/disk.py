"""A full disk: a small file system in a private mount namespace (root on Linux)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.attack.attack import Attack, Broken, Skipped
from tests.attack.live.guest import Guest, clip
from tests.attack.live.server import Server, working_folder

SIZE = 512  # MiB
HELD = 0  # exit code of the child if all checks passed


def _run(_number: int) -> None:
    place = working_folder() / "full"
    place.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size={SIZE}m tmpfs "{place}" && exec "$0" -m tests.attack.live.disk "{place}"'
    command = ["unshare", "-m", "sh", "-c", mount, sys.executable]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=working_folder())
    except FileNotFoundError as error:
        raise Skipped("a full disk needs Linux's unshare") from error
    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        raise Skipped("a full disk needs a file system of its own, which root alone can mount")
    if done.returncode != HELD:
        raise Broken(f"{done.stdout[-3000:]}{done.stderr[-1000:]}")


def full(place: Path) -> None:
    """Serve from the small disk, fill it, and check what still works."""
    server = Server("--owners", "browser", folder=place).wait_until_started()
    try:
        guest = Guest(server)
        guest.arrive()
        ids = [guest.keep_voice(f"Voice {number}") for number in range(4)]
        _fill(place / "filler")
        before = server.uploaded()
        _check_upload_is_rejected(guest)
        if server.uploaded() > before:
            raise Broken(f"An upload that failed left {server.uploaded() - before} bytes.")
        _check_deletion(guest, ids[0])
        (place / "filler").unlink()
        if not {*ids[1:], guest.keep_voice("Voice 5")} <= {voice["id"] for voice in guest.voices()}:
            raise Broken("Voices are missing after the disk was full.")
        server.check_log()
    finally:
        server.stop()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for block in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\1" * block)
            except OSError:
                continue


def _check_upload_is_rejected(guest: Guest) -> None:
    answer = guest.http.post("gradio_api/upload", files={"files": ("a.wav", clip() * 40)})
    if answer.status_code == 200:
        raise Broken("An upload was accepted on a full disk.")
    if answer.status_code == 500 or not answer.text.strip():
        raise Broken(f"An upload to a full disk was answered with {answer.status_code}: {answer.text[:300]}")


def _check_deletion(guest: Guest, voice: str) -> None:
    guest.press("remove", id=voice)
    guest.press("purge")
    if voice in {known["id"] for known in guest.voices()}:
        raise Broken("A voice cannot be deleted on a full disk.")


def _cases(seed: int, count: int) -> Iterator[int]:
    yield from range(count)


DISK = Attack("full disk", "uploads are refused, deleting still works", _cases, _run, 1, 300.0, None, alone=True)

if __name__ == "__main__":
    os.environ["REPRISE_ATTACK_FOLDER"] = str(working_folder())
    try:
        full(Path(sys.argv[1]))
    except (Broken, httpx.HTTPError) as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
