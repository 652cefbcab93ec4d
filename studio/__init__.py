"""Application services on top of the engine and storage, independent of the interface: no Gradio, no HTTP."""
