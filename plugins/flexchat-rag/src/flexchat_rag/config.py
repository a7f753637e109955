"""What a stores entry with provider = "sqlite" may say."""

from __future__ import annotations

from typing import Literal

import attrs

DEFAULT_COLLECTION = "documents"
"""Where files go if nobody says."""


@attrs.frozen(kw_only=True)
class SqliteConfig:
    """A stores entry with provider = "sqlite".

    Attributes:
        path: The database's file, relative to the config's folder; ":memory:" for none, as long as the
            process lives. Default: documents.db among this user's data.
        search: "hybrid" asks for words and for meaning, and merges both; "keyword" makes no vectors for new
            collections.
    """

    path: str | None = None
    search: Literal["hybrid", "vector", "keyword"] = "hybrid"
