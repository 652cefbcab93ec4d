"""Random use of the page in a browser, compared with a reload, the database and the engine."""
