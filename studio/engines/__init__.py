"""Where speech is made: in this process, on a GPU that is lent, and what loads and unloads the model."""
