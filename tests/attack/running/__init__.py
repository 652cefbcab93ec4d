"""How attacks are run: a guarded process, workers, outcomes, findings, the report."""
