"""Who sends a request: accounts, logins, owners, addresses."""
