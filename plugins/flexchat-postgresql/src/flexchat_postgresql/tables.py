"""The tables, step by step. Released steps are never changed: a change is another step."""

from __future__ import annotations

from typing import LiteralString

# What is searched is folded before it is stored: what a database takes for the same letter depends on its locale.
CONVERSATIONS: tuple[LiteralString, ...] = (
    """
    CREATE SEQUENCE {s}.conversation_uses;
    CREATE TABLE {s}.conversations (
        tenant text COLLATE "C" NOT NULL,
        id text COLLATE "C" NOT NULL,
        title text NOT NULL,
        folded_title text COLLATE "C" NOT NULL,
        topic text NOT NULL,
        turns bigint NOT NULL,
        started_at text NOT NULL,
        used_at text NOT NULL,
        used bigint NOT NULL,
        PRIMARY KEY (tenant, id)
    );
    CREATE INDEX conversations_used ON {s}.conversations (tenant, used);
    CREATE TABLE {s}.turns (
        tenant text COLLATE "C" NOT NULL,
        conversation text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        folded_text text COLLATE "C" NOT NULL,
        turn text NOT NULL,
        PRIMARY KEY (tenant, conversation, number),
        UNIQUE (tenant, conversation, id),
        FOREIGN KEY (tenant, conversation) REFERENCES {s}.conversations ON DELETE CASCADE
    )
    """,
    # Beside the turn's own JSON, so that the list of conversations can tell it. Turns of old databases are all done.
    """
    ALTER TABLE {s}.turns ADD COLUMN status text COLLATE "C" NOT NULL DEFAULT 'done'
    """,
)
