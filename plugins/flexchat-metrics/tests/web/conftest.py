"""The app over a model that repeats its answers: shared with flexchat-web."""

from web_fixtures import (
    client_of_fixture,
    config_file,
    new_app,
    new_client,
    page_files,
    plugins,
    time_for_other_processes,
    told,
    told_plugin,
)

__all__ = [
    "client_of_fixture",
    "config_file",
    "new_app",
    "new_client",
    "page_files",
    "plugins",
    "time_for_other_processes",
    "told",
    "told_plugin",
]
