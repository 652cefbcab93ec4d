"""The History tab: takes that are kept."""
