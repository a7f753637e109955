"""The one way to reach a model's service over HTTP, for all provider packages.

client.py        HttpClient: post, get, stream; every failure becomes a ProviderError with a sentence
connections.py   the default transport: httpx's transport protocol over aiohttp's connections
trouble.py       what a broken connection means
deadline.py      connect, first byte, idle, total: one timer per request
sse.py           bytes to server-sent events
answer_shape.py  what is an error in an answer, and what counts as missing
ndjson.py        bytes to lines of JSON
retry_after.py   what a service says about retrying
refusal.py       what it says when it refuses: short, and without keys
secrets.py       keeps keys out of texts

Nothing is imported here: httpx and aiohttp load with ``flexchat.http.client``, when a provider is created.
"""
