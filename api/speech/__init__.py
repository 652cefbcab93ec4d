"""OpenAI's speech operations: single speech, batches, live sessions. All parts of the API speak through `delivery`."""
