"""The Library tab: the voices, and what can be done with them."""
