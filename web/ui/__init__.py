"""Components, events, payloads, words and style that all tabs share."""
