"""Pictures that users give for voices and audio books."""
