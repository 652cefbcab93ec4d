"""A phone recogniser: it times the phones of training speech, and judges speech."""
