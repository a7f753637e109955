"""Registers the provider ``ollama``. Light: httpx and aiohttp load when a provider is made."""
