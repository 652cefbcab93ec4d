"""Benchmarks for the README's figures. Each prints its tables and saves the figures as JSON in `results/`."""
