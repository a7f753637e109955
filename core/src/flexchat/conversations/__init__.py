"""Conversations that are kept: the built-in store, and what a chat does with any store."""
