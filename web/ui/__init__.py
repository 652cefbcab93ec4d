"""Components, events, payloads, texts and styles shared by all tabs."""
