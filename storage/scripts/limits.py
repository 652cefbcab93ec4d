"""Limits of scripts and their cards: for the library, and for reading and writing texts."""

MAX_SCRIPT_NAME = 120  # characters, as are the other text limits
MAX_AUTHOR = 200  # of a script's text
MAX_COVER = 700_000  # bytes
MAX_CARDS = 20_000  # per script
MAX_CARD_TEXT = 5_000
MAX_SPEAKER = 80
MAX_CHAPTER = 200  # of a title
MAX_PAUSE = 60.0  # seconds; the longest of `engine.text.pauses`, too
SLOWEST_CARD, FASTEST_CARD = 0.5, 2.0  # playback speeds
