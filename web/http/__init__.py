"""HTTP layer in front of Gradio: access checks, size limits, and response headers."""
