"""From samples to files and streams: coding, speed, loudness, tags, joined takes."""
