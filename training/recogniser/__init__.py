"""A phone recogniser, which aligns phones in training speech and evaluates speech."""
