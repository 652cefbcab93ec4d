"""The page: a thin face over the engine and the voice library. Start at `web.page.create_app`."""
