"""Migrations of the document tables. Released steps are never edited: each change is a new step."""

from __future__ import annotations

from typing import LiteralString

# Names are compared by code point (COLLATE "C"), as everywhere in FlexChat. Vectors are stored apart from the texts, so
# that a vector search reads nothing else; tsvectors stay in the document's row, because each ranking reads both. One
# column holds vectors of any length: each index is for one length and one collection.
DOCUMENTS: tuple[LiteralString, ...] = (
    """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE {s}.collections (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        description text NOT NULL,
        match_threshold double precision,
        partial_threshold double precision,
        title_field text NOT NULL,
        source_field text NOT NULL,
        metadata text NOT NULL,
        language text NOT NULL,
        embedding text,
        dimensions int,
        documents bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE {s}.documents (
        key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        collection_id bigint NOT NULL REFERENCES {s}.collections ON DELETE CASCADE,
        id text COLLATE "C" NOT NULL,
        title text NOT NULL,
        source text COLLATE "C",
        text text NOT NULL,
        metadata text NOT NULL,
        facts jsonb NOT NULL,
        text_hash bytea NOT NULL,
        hash bytea NOT NULL,
        digest text,
        words tsvector NOT NULL,
        UNIQUE (collection_id, id)
    );
    ALTER TABLE {s}.documents ALTER COLUMN words SET STORAGE MAIN;
    CREATE INDEX documents_source ON {s}.documents (collection_id, source) WHERE source IS NOT NULL;
    CREATE INDEX documents_words ON {s}.documents USING gin (words);
    CREATE TABLE {s}.vectors (
        key bigint PRIMARY KEY REFERENCES {s}.documents ON DELETE CASCADE,
        collection_id bigint NOT NULL,
        embedding vector NOT NULL
    );
    ALTER TABLE {s}.vectors ALTER COLUMN embedding SET STORAGE MAIN;
    CREATE INDEX vectors_collection ON {s}.vectors (collection_id);
    CREATE TABLE {s}.sources (
        collection_id bigint NOT NULL REFERENCES {s}.collections ON DELETE CASCADE,
        name text COLLATE "C" NOT NULL,
        digest text NOT NULL,
        complete boolean NOT NULL,
        added_at timestamptz,
        PRIMARY KEY (collection_id, name)
    )
    """,
)
