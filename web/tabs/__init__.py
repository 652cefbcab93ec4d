"""The tabs of the page: layout, and which event does what. Each has one `build(house, shared)`."""
