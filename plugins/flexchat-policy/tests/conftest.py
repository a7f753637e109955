"""The app over a model that repeats one answer: shared with flexchat-web."""

from web_fixtures import client_of_fixture, config_file, plugins, told, told_plugin

__all__ = ["client_of_fixture", "config_file", "plugins", "told", "told_plugin"]
