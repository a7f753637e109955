"""The kit for plugin authors: a scripted model, replayed traffic, and the laws of each plugin contract.

The scripted model and the recorder need nothing but FlexChat; everything else needs ``pip install
"flexchat-testing[laws]"``. Each name loads its module on first access.

    scripted.py       ScriptedProvider, says, calls: a model whose answers a test provides
    every_tool.py     EveryToolProvider: a model that calls every tool once; example_value
    tool_sources.py   ScriptedSource, sourced: a tool source whose tools a test provides; the source "listed"
    recorder.py       RecordedEvents: the events of a turn
    replay.py         ReplayTransport: recorded traffic, served again
    sockets.py        forbid_sockets: blocks connections to real services
    fixtures.py       fixtures for pytest: pytest_plugins = ["flexchat_testing.fixtures"]
    hashing_embedder.py  HashingEmbedder: vectors without a model, for tests of document stores
    laws/             the laws of each kind of plugin: providers, handlers, implementation types, stores
"""

from flexchat.host import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
