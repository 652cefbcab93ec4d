"""The Script tab: long texts as cards, and the runner that speaks them."""
