"""A phone recogniser. It aligns phones in training speech, is a loss of the codec and part of the reward of the dual AR."""
