"""Kept conversations: the built-in store, and a chat's use of any store."""
