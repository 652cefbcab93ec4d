"""The tabs of the page, a package each: `layout`, `handlers`, `views`."""
