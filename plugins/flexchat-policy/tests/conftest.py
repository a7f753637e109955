"""The app over a model that repeats one answer: shared with flexchat-web. Servers: with flexchat-postgresql."""

from postgres_server import dsn, own_server, schema, server
from web_fixtures import client_of_fixture, config_file, plugins, told, told_plugin

__all__ = [
    "client_of_fixture",
    "config_file",
    "dsn",
    "own_server",
    "plugins",
    "schema",
    "server",
    "told",
    "told_plugin",
]
