"""Embeddings on this machine for FlexChat: all-MiniLM-L6-v2, no key, no network."""
