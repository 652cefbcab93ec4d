"""Texts to read aloud for a clip: ten to fifteen seconds each, in plain words, with most sounds of English.

They are in English regardless of the page's language, because every model speaks English.
"""

READING_TEXTS = (
    (
        "On Thursday my cousin Joyce brought fresh oranges, a jar of plum jam and a huge yellow kite to the beach. "
        "We laughed all afternoon, watched the boats sail past, and were home just before the thunder."
    ),
    (
        "Every morning the old baker opens his shop at five, puts on some quiet music and begins to knead the dough. "
        "By six the whole street smells of warm bread, and nobody can walk past without choosing a bun."
    ),
    (
        "Would you like to know how I found this house? I took the wrong bus, fell asleep, and woke up near the river. "
        "A boy with a red umbrella showed me the path, and there it was, just as you see it now."
    ),
    (
        "The forecast for the weekend is bright but chilly, with a light breeze from the north and very little cloud. "
        "Take a thick jumper, a flask of tea and good shoes, for the ground may still be rather wet."
    ),
    (
        "My favourite job was measuring time at a small museum of watches. I checked each one with a magnifying glass, "
        "oiled the tiny wheels, and wrote the usual figures in a large blue book."
    ),
)
