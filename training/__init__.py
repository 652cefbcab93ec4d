"""How the bundled model is made: speech from free synthesizers, and the models trained on it."""
