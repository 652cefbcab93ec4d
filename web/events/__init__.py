"""What the events of the page do: checked values in, updates of components out. No layout, no queries, no torch."""
