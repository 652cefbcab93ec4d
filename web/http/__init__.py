"""What stands between the network and Gradio: ASGI middleware."""
