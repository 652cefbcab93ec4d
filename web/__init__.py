"""The page: a thin face over the engine and what is kept. Start at `web.page.create_app`."""
