"""Programs that use the speech services of voice agents, in a separate environment (requirements-clients.txt)."""
