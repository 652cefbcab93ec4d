"""Parts of a benchmark that run in a new process. Imports only the standard library, as other programs' Pythons run
it too.

The new process runs a module and prints its result, as JSON, in its last line.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run_module(
    module: str, *arguments: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Any:
    """Run a module in a new process of the interpreter `python`. Return the result that it prints.

    environment: of the process; by default that of this one. Raises CalledProcessError.
    """
    command = [python, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    return json.loads(done.stdout.splitlines()[-1])
