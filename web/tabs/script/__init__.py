"""The Script tab: long texts as cards with takes."""
