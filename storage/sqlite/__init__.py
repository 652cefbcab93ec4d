"""What a library in a SQLite file needs beside its transactions."""
