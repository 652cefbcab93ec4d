"""The length of clip that is recommended for a voice, in seconds.

The page, the doctor, the sentences in all languages and the README say these numbers (`tests/test_clip_length.py`).
"""

SHORTEST_ADVISED = 5.0  # the clips that models learn to continue have 5 to 30
BEST_FROM, BEST_TO = 8.0, 15.0  # enough to characterise a voice, and not more than a model makes use of
LONGEST_USED = 30.0  # of which a voice is made, the silence at the end included
