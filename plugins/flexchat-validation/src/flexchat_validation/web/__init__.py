"""Validation in flexchat-web: operations of the HTTP API, and the record of each model in the list of models.

Only the hooks of flexchat-web import this folder, so that the plugin loads without it.
"""

from .runs import operation as _runs
from .tool_test import operation as _tool_test
from .validation import operation as _validation

OPERATIONS = (*_tool_test.declared, *_validation.declared, *_runs.declared)
"""In the order of the documents."""
