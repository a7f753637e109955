"""Figures in flexchat-web: operations of the HTTP API.

Only the hooks of flexchat-web import this folder, so that the plugin loads without it.
"""

from .operations import operation as _operation

OPERATIONS = tuple(_operation.declared)
"""In the order of the documents."""
