"""Test support: fakes, clocks, texts and measurements."""
