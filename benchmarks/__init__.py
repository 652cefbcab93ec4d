"""Benchmarks behind the README's figures: each prints one table and saves it as JSON in `results/`."""
