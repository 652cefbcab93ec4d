"""Training of the dual AR on encoded speech."""
