"""Scripts and their cards."""
