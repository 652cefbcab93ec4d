"""The History tab: what was spoken and kept."""
