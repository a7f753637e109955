"""The one way to reach a service over HTTP: models' services, and whatever others name.

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
fetcher.py       GuardedFetcher: for what a user, a model or a document names; every failure becomes a FetchError
guard.py         which addresses it may reach
fetch_trouble.py what a broken connection means there
late_fetcher.py  a chat's fetcher, made with the first request

Nothing is imported here: httpx and aiohttp load with ``flexchat_sdk.http.client``, when a provider is created.
"""
