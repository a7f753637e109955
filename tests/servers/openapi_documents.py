"""Documents of the tests."""

import asyncio
import json
from pathlib import Path
from typing import Any

from flexchat_http.openapi.convert import Converted, convert
from flexchat_http.openapi.library import Library, open_library


def document(paths: dict[str, Any], *, version: str = "3.0.3", **rest: Any) -> dict[str, Any]:
    """Return a document with these paths."""
    info = {"title": "Test", "version": "1"}
    return {"openapi": version, "info": info, "servers": [{"url": "https://api.example/v1"}], "paths": paths, **rest}


def library(data: dict[str, Any], root: str = "https://docs.example/api/openapi.json") -> Library:
    """Return a library that has read this document."""
    return Library(root=root, files={root: data})


def opened(path: Path, **options: Any) -> Library:
    """Return a document's library."""
    return asyncio.run(open_library(str(path), **{"fetch": None, "remote": False, **options}))


def written(folder: Path, data: Any, name: str = "openapi.json") -> Path:
    """Write a document."""
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def one(operation: dict[str, Any], *, method: str = "get", path: str = "/x", **rest: Any) -> Any:
    """Return the only tool of a document with one operation."""
    done = converted(document({path: {method: operation}}, **rest))
    assert done.left_out == ()
    return done.tools[0]


def converted(data: dict[str, Any], **options: Any) -> Converted:
    """Return a document's tools."""
    return convert(library(data), **options)
