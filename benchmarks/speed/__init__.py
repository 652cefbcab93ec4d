"""Speed on this machine: frames, first audio, listeners, and the bound of the memory's bandwidth."""
