"""What a browser sees that has not shown the start-up token."""

from __future__ import annotations

from html import escape

from web.http.startup_token import NAME
from web.ui.i18n import Words

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 ui-sans-serif, system-ui, sans-serif }
body { max-width: 30rem; margin: 15vh auto; padding: 0 1.5rem }
form { display: flex; gap: .5rem; margin-top: 1.5rem }
input { flex: 1; min-width: 0 }
input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid #8888 }
"""


def locked_page(words: Words) -> str:
    """HTML that asks for the token."""
    title, text, token, open_it = (escape(words(f"locked.{key}")) for key in ("title", "text", "token", "open"))
    return f"""<!doctype html>
<html lang="{escape(words.language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<form method="get">
<input name="{NAME}" aria-label="{token}" placeholder="{token}" autocomplete="off" required autofocus>
<button>{open_it}</button>
</form>
</body>
</html>
"""
