"""The app over a model that repeats one answer, and a real server: shared with those who add to it."""

from web_fixtures import (
    client,
    client_of_fixture,
    config_file,
    new_app,
    new_client,
    page_files,
    plugins,
    running,
    sse_fixture,
    time_for_other_processes,
    told,
    told_plugin,
)

__all__ = [
    "client",
    "client_of_fixture",
    "config_file",
    "new_app",
    "new_client",
    "page_files",
    "plugins",
    "running",
    "sse_fixture",
    "time_for_other_processes",
    "told",
    "told_plugin",
]
