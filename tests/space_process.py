"""Start the app as a ZeroGPU Space does, on a machine without a GPU.

python -m tests.space_process ARGUMENTS

The package `spaces` is the real one. Only its use of the GPU is omitted: forked processes neither find one
nor move the weights to it.
"""

import sys

import web  # noqa: F401 - before Gradio, which `spaces` imports, as in app.py

# isort: split
import spaces
from spaces.zero import torch as zero_torch

assert spaces.config.Config.zero_gpu, "SPACES_ZERO_GPU is set"
zero_torch.unpatch = zero_torch.init = zero_torch.move = lambda *_, **__: None

from app import main  # noqa: E402

main(sys.argv[1:])
