"""Settings of a stores entry with provider = "sqlite"."""

from __future__ import annotations

from typing import Literal

import attrs

DEFAULT_COLLECTION = "documents"
"""Default collection for files."""


@attrs.frozen(kw_only=True)
class SqliteConfig:
    """A stores entry with provider = "sqlite".

    Attributes:
        path: The database file, relative to the config's folder; ":memory:" for a database that exists as long as
            the process. Default: documents.db in the user's data folder.
        search: "hybrid" combines word search and vector search; with "keyword", new collections get no vectors.
    """

    path: str | None = None
    search: Literal["hybrid", "vector", "keyword"] = "hybrid"
