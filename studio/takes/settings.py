"""Names of the settings that are stored with a take, besides its seed."""

from storage.scripts.limits import FASTEST_CARD, SLOWEST_CARD

SLOWEST, FASTEST = SLOWEST_CARD, FASTEST_CARD  # speeds of takes

SAMPLING_SETTINGS = ("temperature", "top_p", "top_k")  # options of the engine
LANGUAGE = "language"  # the requested language, if there is one
PARAGRAPH_PAUSE = "paragraph_pause"  # seconds of additional silence after each paragraph, if any
SPEED = "speed"  # at constant pitch, if it is not 1
REPAIRED = "mended"  # number of its sentences that were replaced by repairs; the name in databases and web/static
