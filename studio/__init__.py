"""What an application does with an engine and a library, whatever its face: no Gradio, no HTTP."""
