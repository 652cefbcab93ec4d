"""Files of others: read within bounds, and replaced whole or not at all. No torch is needed but for `tensors`."""
