"""Quality of the bundled model's speech."""
