"""A server with a few tools, shared with the tests of whole programs."""

from mcp_fixtures import config, data_folder, new_web, open_chat, ran, tools

__all__ = ["config", "data_folder", "new_web", "open_chat", "ran", "tools"]
