"""OpenAI's speech operations: one speech, a batch, and live sessions. All faces of the API speak through `delivery`."""
