"""Concurrent requests: the engine loop, its scheduler, the model runner and the codec worker."""
