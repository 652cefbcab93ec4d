"""Speed on this machine: frame rate, first audio, concurrent listeners, and the bound of the memory bandwidth."""
