"""The mark of tests that draw training sentences."""

import pytest

from training.speech.sentences import FORTUNES

needs_fortunes = pytest.mark.skipif(not FORTUNES.exists(), reason="not installed: fortunes")
