"""Generate the next migration from the difference between `storage/models.py` and a database at head."""

import sys
import tempfile
from pathlib import Path

from alembic import command
from sqlalchemy import create_engine

from storage.migrations import config, upgrade


def main(message: str) -> None:
    """Compare with a temporary database and write `versions/v<number>_<message>.py`."""
    number = len(list((Path(__file__).parent / "versions").glob("v*.py"))) + 1
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{folder}/head.sqlite")
        with engine.begin() as connection:
            upgrade(connection)
        with engine.begin() as connection:
            command.revision(config(connection), message, autogenerate=True, rev_id=f"{number:04d}")
        engine.dispose()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit('Say what changes: python -m storage.migrations "what changes"')
    main(sys.argv[1])
