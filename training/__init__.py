"""Training of the bundled model: speech from free synthesizers, and the models trained on it."""
