"""Many requests at once: the engine loop, its scheduler, the model runner and the codec worker."""
