"""Budgets of visitors: takes, calls, connections, sessions, tries."""
