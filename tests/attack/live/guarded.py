"""Run app.py under the guard: python -m tests.attack.live.guarded FOLDER [arguments of app.py]"""

import ctypes
import runpy
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.attack.running import guard

APP = Path(__file__).parents[3] / "app.py"
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the app; it ends with the process that started it."""
    with suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    folder, sys.argv = Path(sys.argv[1]), [str(APP), *sys.argv[2:]]
    guard.install(folder)
    runpy.run_path(str(APP), run_name="__main__")


if __name__ == "__main__":
    main()
