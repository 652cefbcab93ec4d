"""Components, events, payloads, words and styles shared by all tabs."""
