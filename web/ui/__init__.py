"""What all tabs are built of: components, looks, words."""
