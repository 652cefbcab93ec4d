"""Running of attacks: a guarded process, workers, outcomes, findings and the report."""
