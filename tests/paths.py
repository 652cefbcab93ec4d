"""Places that tests read from."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
MINIATURE = FIXTURES / "s2_tiny"  # a release in miniature, with the tensors that the public reference computed from it
SPEECH = FIXTURES / "speech"
CLIP = SPEECH / "flite_slt.flac"  # three seconds of a woman's voice
BUNDLED = ROOT / "assets" / "bundled"
MEMORY = Path("/dev/shm")  # files in memory, on Linux
