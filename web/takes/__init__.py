"""What was spoken: while it is, where it is kept, and as files."""
