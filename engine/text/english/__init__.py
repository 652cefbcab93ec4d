"""English text front end: numbers and abbreviations to words, and words to phones."""
