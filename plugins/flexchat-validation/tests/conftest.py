"""The testing kit's fixtures."""

from flexchat_testing.fixtures import flexchat_app, plugin_host, recorded_events, scripted

__all__ = ["flexchat_app", "plugin_host", "recorded_events", "scripted"]
