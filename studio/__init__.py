"""Application services on engine and storage, independent of any face: no Gradio, no HTTP."""
