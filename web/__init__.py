"""The web interface: a thin layer over the engine and the storage. Start at `web.page.create_app`."""
