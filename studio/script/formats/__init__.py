"""Text formats of scripts: plain text, Markdown and subtitles in, subtitles out."""
