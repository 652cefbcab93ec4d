"""Training of the bundled model: speech from free synthesizers, and the models that are trained on it."""
