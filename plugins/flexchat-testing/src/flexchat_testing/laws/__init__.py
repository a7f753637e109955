"""The laws of each kind of plugin, as classes to subclass: providers, handlers, implementation types and stores.

Each kind is imported by itself, from flexchat_testing: the provider's laws need httpx, the others do not.
"""
