"""Programs with the speech services of voice agents, for an environment of their own (requirements-clients.txt)."""
