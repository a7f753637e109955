"""The schema of the database file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from flexchat_sqlite import Database

Connection = sqlite3.Connection

APPLICATION_ID = 0x46436472  # "FCdr"

# Row ids only increase, and a changed vector gets a new one: documents added since an id are those with a higher id.
# `version` counts the changes of a collection's vectors, `removals` those that removed some.
_TABLES = """
CREATE TABLE collections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    match_threshold REAL,
    partial_threshold REAL,
    title_field TEXT NOT NULL DEFAULT 'title',
    source_field TEXT NOT NULL DEFAULT 'source',
    metadata TEXT NOT NULL DEFAULT '{}',
    embedding TEXT,
    dimensions INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    removals INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    id TEXT NOT NULL,
    source TEXT,
    digest TEXT,
    metadata TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (collection, id)
);
CREATE INDEX documents_by_source ON documents (collection, source);
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
    collection INTEGER NOT NULL,
    vector BLOB NOT NULL
);
CREATE INDEX vectors_by_collection ON vectors (collection);
CREATE TABLE sources (
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    complete INTEGER NOT NULL,
    added_at TEXT,
    PRIMARY KEY (collection, name)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(
    title, text, collection, content = 'documents', content_rowid = 'number', tokenize = 'porter unicode61'
);
CREATE TRIGGER words_added AFTER INSERT ON documents BEGIN
    INSERT INTO words (rowid, title, text, collection) VALUES (new.number, new.title, new.text, new.collection);
END;
CREATE TRIGGER words_removed AFTER DELETE ON documents BEGIN
    INSERT INTO words (words, rowid, title, text, collection)
        VALUES ('delete', old.number, old.title, old.text, old.collection);
END;
"""


def open_database(path: Path) -> Database:
    """Create a Database for a file, without opening it yet."""
    return Database(path, kind="documents", application_id=APPLICATION_ID, migrations=(_TABLES,), prepare=_prepare)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -16000")  # 16 MB, so that frequent words stay in memory
