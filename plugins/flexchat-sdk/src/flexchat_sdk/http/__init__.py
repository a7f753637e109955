"""HTTP access: to the services of models, and to addresses named by users, models and documents.

client.py        HttpClient: post, get, stream; every failure becomes a ProviderError with a sentence
connections.py   the default transport: httpx's transport protocol over aiohttp's connections
trouble.py       what a broken connection means
deadline.py      connect, first byte, idle, total: one timer per request; a limit shared by several requests
framing.py       bytes to server-sent events, or to lines of JSON
answer_shape.py  reads fields of an answer: an error for a wrong type, None for a missing value
secrets.py       removes keys from texts; shortens the body of a refusal
unpacking.py     gzip and deflate, in bounded steps
fetcher.py       GuardedFetcher: for addresses named by users, models and documents; every failure is a FetchError
guard.py         the addresses that it may reach

Nothing is imported here: httpx and aiohttp load with ``flexchat_sdk.http.client``, when a provider is created.
"""
