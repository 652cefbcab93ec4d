"""The Status tab: the server's state and the choice of a model."""
