"""Networks that are trained to judge takes: how their weights are stored."""

from pathlib import Path
from typing import Self

from safetensors.torch import load_file, save_file
from torch import nn


class Estimator(nn.Module):
    """A network without parameters of construction, whose weights are a file."""

    def save(self, path: Path) -> None:
        """Save the weights atomically: a kill at any moment leaves no part of a file at `path`."""
        partial = path.with_suffix(".partial")
        save_file(self.state_dict(), partial)
        partial.chmod(0o644)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load weights saved by `save`, for inference."""
        model = cls()
        model.load_state_dict(load_file(path))
        return model.eval().requires_grad_(False)
