"""Kept conversations: the built-in store, and what a chat does with any store."""
