"""Uploads: the route that takes them, their store on disk, and uploaded files in event data."""
