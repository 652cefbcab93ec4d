"""Proof-listening: takes of scripts are heard back by a recogniser, and spoken again until their words are right."""
