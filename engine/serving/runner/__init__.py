"""The model runner: slots, prefix cache, and the runners of one frame, eager or from captured graphs."""
