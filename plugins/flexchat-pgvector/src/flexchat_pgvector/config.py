"""Settings of a document store in PostgreSQL."""

from __future__ import annotations

from typing import Literal

import attrs
from flexchat.store import key
from flexchat_postgresql import PostgresConfig


@attrs.frozen(kw_only=True)
class PgvectorConfig(PostgresConfig):
    """A stores entry with ``provider = "pgvector"``."""

    search: Literal["hybrid", "vector", "keyword"] = key("By words and vectors, or one of them.", default="hybrid")
    index: Literal["exact", "hnsw"] = key(
        "exact compares every vector; hnsw is quicker from some 50,000 passages on, and may miss some.",
        default="exact",
    )
    language: str = key(
        "Text search configuration of new collections: how words are reduced to stems.", default="english"
    )
