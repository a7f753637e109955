"""The laws of a provider, a handler, an implementation type, a retriever and a document store, as classes to subclass.

Each kind is imported by itself, from flexchat.testing: the provider's laws need httpx, the others do not.
"""
