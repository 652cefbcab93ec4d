"""Books (.epub, .docx, .pdf) as text with chapters. `reading` is for the app; the rest runs in a separate process."""
