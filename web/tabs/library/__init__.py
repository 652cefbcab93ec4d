"""The Library tab: saved voices and actions on them."""
