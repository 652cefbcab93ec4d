"""Memory of the engine and of the codec's views."""
