"""Costs in flexchat-web: an operation of the HTTP API.

Only the hook of flexchat-web imports this folder, so that the plugin loads without it.
"""

from .operations import operation as _operation

OPERATIONS = tuple(_operation.declared)
