"""Speaker encoders: the decoder learns from them, and similarity to a voice is a part of the dual AR's reward."""
