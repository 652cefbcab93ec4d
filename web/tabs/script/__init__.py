"""The Script tab: long texts as cards, and their takes."""
