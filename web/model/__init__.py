"""The engine as the page has it: one that may be changed for another, and how fast it is."""
