"""HTTP in front of Gradio: which requests pass, how large they are, and the headers of responses."""
