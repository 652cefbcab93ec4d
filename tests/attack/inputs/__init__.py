"""Attacks with hostile inputs: files, texts, links and events, in the process of the attack."""
