"""The engine interface, the engine on ZeroGPU, and the manager that loads and unloads the model."""
