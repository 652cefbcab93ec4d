"""A speaker encoder, whose similarity of two voices is a part of the dual AR's reward."""
