"""The document stores a config names, opened."""
