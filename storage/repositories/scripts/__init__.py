"""Queries of scripts, their cards and takes."""
