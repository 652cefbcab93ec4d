"""Recommended length of a reference clip, in seconds.

The page, the doctor, the sentences in all languages and the README state these numbers (`tests/test_documents.py`).
"""

SHORTEST_ADVISED = 5.0  # models are trained to continue clips of 5 to 30 s
BEST_FROM, BEST_TO = 8.0, 15.0  # enough to characterise a voice, and not more than a model makes use of
LONGEST_USED = 30.0  # maximum length of a prepared clip, including the silence at the end
