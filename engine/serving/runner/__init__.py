"""The model runner: slots, prefix cache, and the ways in which one frame is run, eagerly or from captured graphs."""
