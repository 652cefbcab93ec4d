"""A small pitch estimator, as a part of the reward of the dual AR's own takes."""
