"""The tabs of the page. Each is a package with `layout`, `handlers` and `views`."""
