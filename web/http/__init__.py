"""What stands between the network and Gradio: who may ask for what, and how much of it."""
