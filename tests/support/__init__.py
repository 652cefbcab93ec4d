"""What tests stand on: fakes, clocks, texts, and measuring."""
