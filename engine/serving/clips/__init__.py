"""What is computed from clips: codes, speaker embeddings, and adaptations of speech to their speakers."""
