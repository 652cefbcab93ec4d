"""Training of the dual AR on coded speech."""
