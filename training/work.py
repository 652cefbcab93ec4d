"""The folder for everything that training makes."""

from pathlib import Path

DEFAULT_WORK = Path.home() / ".cache/reprise/training"
