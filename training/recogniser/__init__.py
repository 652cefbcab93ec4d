"""A phone recogniser, which aligns training speech, is a loss of the codec and part of the dual AR's reward."""
