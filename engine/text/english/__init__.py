"""English text: numbers and abbreviations as words, and words as phones."""
