"""A configuration's text as tables, for the form that shows them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from flexchat import ConfigError
from flexchat.host import parse_document


def tables_of(text: str, format: str) -> Any:
    """Return a text as JSON data, with references to the environment unexpanded; None if it cannot be read."""
    try:
        return _json(parse_document(text, f"flexchat.{format}").data)
    except ConfigError:
        return None


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value
