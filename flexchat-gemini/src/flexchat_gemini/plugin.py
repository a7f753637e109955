"""Registers the provider ``gemini``. Light: httpx and aiohttp load when a provider is made."""
