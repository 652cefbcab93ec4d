"""The S2 family: Fish Audio S2-Pro, S1-mini and the bundled model, which uses S2-Pro's layout."""
