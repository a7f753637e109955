"""Migrations of the conversation tables. Released steps are never edited: each change is a new step."""

from __future__ import annotations

from typing import LiteralString

from flexchat.store import MAX_RESUMES, effect_rows, journal_rows

from . import counters, sums

# Searched text is case-folded before it is stored: case folding in the database depends on its locale.
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
    # The status, also outside the turn's JSON, for lists of conversations. All turns of older databases are done.
    """
    ALTER TABLE {s}.turns ADD COLUMN status text COLLATE "C" NOT NULL DEFAULT 'done'
    """,
    # The effect ledger and the turn journal. A token identifies the attempt that wrote a row, for an attempt whose
    # connection broke during COMMIT. Owners are the processes that use the tables.
    """
    CREATE TABLE {s}.owners (
        owner text COLLATE "C" PRIMARY KEY,
        alive_until timestamptz NOT NULL,
        lease_s double precision NOT NULL,
        renewals bigint NOT NULL
    );
    CREATE TABLE {s}.effects (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key text COLLATE "C" NOT NULL UNIQUE,
        tenant text COLLATE "C" NOT NULL,
        conversation text COLLATE "C",
        turn text COLLATE "C" NOT NULL,
        place text NOT NULL,
        tool text NOT NULL,
        digest text NOT NULL,
        arguments text NOT NULL,
        state text COLLATE "C" NOT NULL,
        owner text COLLATE "C" NOT NULL,
        fence bigint NOT NULL,
        result text,
        claimed_at text COLLATE "C" NOT NULL,
        ended_at text COLLATE "C" NOT NULL,
        settled_by text NOT NULL,
        note text NOT NULL,
        token text NOT NULL
    );
    CREATE INDEX effects_of_conversations ON {s}.effects (tenant, conversation) WHERE conversation IS NOT NULL;
    CREATE INDEX effects_not_ended ON {s}.effects (tenant, state) WHERE state IN ('claimed', 'unknown');
    CREATE INDEX effects_by_end ON {s}.effects (ended_at) WHERE ended_at <> '';
    CREATE TABLE {s}.journal_turns (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        tenant text COLLATE "C" NOT NULL,
        conversation text COLLATE "C" NOT NULL,
        state text COLLATE "C" NOT NULL,
        message text NOT NULL,
        owner text COLLATE "C" NOT NULL,
        fence bigint NOT NULL,
        began_at text COLLATE "C" NOT NULL,
        ended_at text COLLATE "C" NOT NULL DEFAULT '',
        error text NOT NULL DEFAULT '',
        token text NOT NULL DEFAULT ''
    );
    CREATE INDEX journal_turns_of_conversations ON {s}.journal_turns (tenant, conversation);
    CREATE INDEX journal_turns_by_end ON {s}.journal_turns (ended_at) WHERE ended_at <> '';
    CREATE TABLE {s}.journal_entries (
        turn text COLLATE "C" NOT NULL REFERENCES {s}.journal_turns (id) ON DELETE CASCADE,
        number bigint NOT NULL,
        kind text NOT NULL,
        data text NOT NULL,
        at text NOT NULL,
        PRIMARY KEY (turn, number)
    )
    """,
    # Events emitted by turns, for replay to listeners that reconnect.
    """
    CREATE TABLE {s}.journal_events (
        turn text COLLATE "C" NOT NULL REFERENCES {s}.journal_turns (id) ON DELETE CASCADE,
        number bigint NOT NULL,
        name text NOT NULL,
        data text NOT NULL,
        PRIMARY KEY (turn, number)
    );
    CREATE INDEX journal_turns_running ON {s}.journal_turns (number) WHERE state = 'running'
    """,
    # Idempotency keys of callers, each bound to one turn.
    """
    CREATE TABLE {s}.turn_keys (
        tenant text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        turn text COLLATE "C" NOT NULL,
        digest text NOT NULL,
        begun boolean NOT NULL DEFAULT false,
        bound_at text COLLATE "C" NOT NULL,
        PRIMARY KEY (tenant, key)
    );
    CREATE INDEX turn_keys_by_age ON {s}.turn_keys (bound_at);
    ALTER TABLE {s}.journal_turns ADD COLUMN key text NOT NULL DEFAULT ''
    """,
    # Total cost in trillionths of a dollar (NULL if no turn is priced), and the number of turns not fully priced.
    """
    ALTER TABLE {s}.conversations ADD COLUMN cost bigint, ADD COLUMN unpriced bigint NOT NULL DEFAULT 0;
    UPDATE {s}.conversations SET unpriced = turns
    """,
    # The handle of a job that a tool started in another system.
    """
    ALTER TABLE {s}.effects ADD COLUMN handle text
    """,
    # True if the called service honours the call's idempotency key.
    """
    ALTER TABLE {s}.effects ADD COLUMN honours_key boolean NOT NULL DEFAULT false
    """,
    # What later turns read of a turn, apart from its records (NULL in old rows, whose column "turn" has it), and a
    # number that no other turn is ever given, not even one of the same id.
    """
    ALTER TABLE {s}.turns ADD COLUMN history text, ADD COLUMN serial bigint GENERATED ALWAYS AS IDENTITY
    """,
    # Questions to people, and turns that are suspended, accepted or to be cancelled. A question has no foreign key to
    # its turn: a remembered reply outlives it. is_accepted repeats what the reply's JSON holds, which may contain
    # escapes that the server's JSON functions refuse; is_recorded is true once the turn has a step with the reply;
    # token identifies the attempt that used the approval; send_at is NULL once the question was sent to a webhook.
    """
    ALTER TABLE {s}.journal_turns
        ADD COLUMN suspensions bigint NOT NULL DEFAULT 0,
        ADD COLUMN cancelled_by text NOT NULL DEFAULT '',
        ADD COLUMN due_at text COLLATE "C" NOT NULL DEFAULT '',
        ADD COLUMN priority bigint NOT NULL DEFAULT 0;
    DROP INDEX {s}.journal_turns_of_conversations;
    CREATE INDEX journal_turns_of_conversations ON {s}.journal_turns (tenant, conversation, state, number);
    CREATE INDEX journal_turns_owned ON {s}.journal_turns (owner) WHERE state = 'running';
    CREATE INDEX journal_turns_accepted ON {s}.journal_turns (priority DESC, number) WHERE state = 'accepted';
    CREATE TABLE {s}.questions (
        number bigint GENERATED ALWAYS AS IDENTITY, id text COLLATE "C" PRIMARY KEY, tenant text COLLATE "C" NOT NULL,
        conversation text COLLATE "C" NOT NULL, turn text COLLATE "C" NOT NULL, digest text NOT NULL,
        state text COLLATE "C" NOT NULL, asked_at text NOT NULL, expires_at text COLLATE "C" NOT NULL,
        replied_by text NOT NULL, replied_at text NOT NULL, used_by text COLLATE "C" NOT NULL,
        remembered text COLLATE "C" NOT NULL, question text NOT NULL, reply text, send_at text COLLATE "C",
        is_accepted boolean NOT NULL DEFAULT false, is_recorded boolean NOT NULL DEFAULT false,
        token text NOT NULL DEFAULT ''
    );
    CREATE INDEX questions_of_turns ON {s}.questions (turn);
    CREATE INDEX questions_of_conversations ON {s}.questions (tenant, conversation);
    CREATE INDEX questions_by_number ON {s}.questions (tenant, number);
    CREATE INDEX questions_open ON {s}.questions (tenant, number) WHERE state = 'open';
    CREATE INDEX questions_by_expiry ON {s}.questions (expires_at) WHERE state = 'open';
    CREATE INDEX questions_unsent ON {s}.questions (send_at) WHERE state = 'open' AND send_at IS NOT NULL;
    CREATE INDEX questions_used ON {s}.questions (used_by) WHERE used_by <> '';
    CREATE INDEX effects_pending ON {s}.effects (claimed_at) WHERE state = 'pending';
    CREATE INDEX questions_remembered ON {s}.questions (tenant, remembered) WHERE remembered <> ''
    """,
    # Which accepted turn of a conversation is next, in a column: thousands may wait behind one that runs. A function:
    # its statements see what was committed while it waited for the lock that accepting a turn holds.
    """
    ALTER TABLE {s}.journal_turns ADD COLUMN is_next boolean NOT NULL DEFAULT false;
    UPDATE {s}.journal_turns SET is_next = true WHERE number IN (
        SELECT min(number) FROM {s}.journal_turns WHERE state = 'accepted' GROUP BY tenant, conversation
    );
    DROP INDEX {s}.journal_turns_accepted;
    CREATE INDEX journal_turns_next ON {s}.journal_turns (priority DESC, number) WHERE state = 'accepted' AND is_next;
    CREATE FUNCTION {s}.mark_next() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended(NEW.tenant || ' ' || NEW.conversation, 0));
        UPDATE {s}.journal_turns SET is_next = true
        WHERE NOT is_next AND number = (
            SELECT min(number) FROM {s}.journal_turns
            WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'accepted'
        ) AND NOT EXISTS (
            SELECT FROM {s}.journal_turns
            WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state IN ('running', 'suspended')
        );
        RETURN NULL;
    END $$;
    CREATE TRIGGER journal_turns_begun AFTER INSERT ON {s}.journal_turns
        FOR EACH ROW WHEN (NEW.state = 'accepted') EXECUTE FUNCTION {s}.mark_next();
    CREATE TRIGGER journal_turns_ended AFTER UPDATE OF ended_at ON {s}.journal_turns
        FOR EACH ROW WHEN (NEW.ended_at <> '' AND NEW.conversation <> '') EXECUTE FUNCTION {s}.mark_next()
    """,
    # Media of messages, each once per tenant. A medium being received has no digest yet. held_until: of an upload
    # that no stored turn has used since. Media go with their last use: the lock waits for a transaction that adds
    # another one, and the next statement sees it. The row of media_migration is the last turn whose media were moved.
    """
    CREATE TABLE {s}.media (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant text COLLATE "C" NOT NULL,
        sha256 text COLLATE "C", bytes bigint NOT NULL, held_until text COLLATE "C" NOT NULL, UNIQUE (tenant, sha256)
    );
    CREATE INDEX media_held ON {s}.media (held_until) WHERE held_until <> '';
    CREATE TABLE {s}.media_pieces (
        medium bigint NOT NULL REFERENCES {s}.media ON DELETE CASCADE, place bigint NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (medium, place)
    );
    ALTER TABLE {s}.media_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
    CREATE TABLE {s}.media_uses (
        medium bigint NOT NULL REFERENCES {s}.media,
        tenant text COLLATE "C", conversation text COLLATE "C", turn text COLLATE "C",
        journaled text COLLATE "C" REFERENCES {s}.journal_turns (id) ON DELETE CASCADE,
        UNIQUE (tenant, conversation, turn, medium), UNIQUE (journaled, medium),
        FOREIGN KEY (tenant, conversation, turn) REFERENCES {s}.turns (tenant, conversation, id) ON DELETE CASCADE
    );
    CREATE INDEX media_uses_of_media ON {s}.media_uses (medium);
    CREATE FUNCTION {s}.delete_unused_medium() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM {s}.media WHERE number = OLD.medium FOR UPDATE;
        DELETE FROM {s}.media WHERE number = OLD.medium AND held_until = ''
            AND NOT EXISTS (SELECT FROM {s}.media_uses WHERE medium = OLD.medium);
        RETURN NULL;
    END $$;
    CREATE TRIGGER media_unused AFTER DELETE ON {s}.media_uses
        FOR EACH ROW EXECUTE FUNCTION {s}.delete_unused_medium();
    CREATE TABLE {s}.media_migration (
        tenant text COLLATE "C" NOT NULL, conversation text COLLATE "C" NOT NULL, number bigint NOT NULL
    );
    INSERT INTO {s}.media_migration VALUES ('', '', 0)
    """,
    counters.TABLES,
    # The format of a turn's steps: an older FlexChat leaves those of a newer one to it.
    """
    ALTER TABLE {s}.journal_turns ADD COLUMN format int NOT NULL DEFAULT 1
    """,
    sums.TABLES,
    counters.LOOKS,
)

COMPATIBLE_FROM = 12
"""Steps that a FlexChat must know to use the newest tables. Each later one only adds to them, so that the versions
before and after it can share a database; one that removes or changes something raises this number."""

AFTER_RESTORE: tuple[tuple[LiteralString, tuple[str | int, ...]], ...] = (
    ("DELETE FROM {s}.owners", ()),
    ("DELETE FROM {s}.counter_looks", ()),  # at the clock of another server
    (
        "UPDATE {s}.effects SET state = 'unknown', note = %s WHERE state IN ('claimed', 'pending')",
        (effect_rows.RESTORED_EFFECT,),
    ),
    (
        """UPDATE {s}.journal_turns SET state = 'running', owner = '', error = %s,
        fence = greatest(fence + 1, suspensions + %s + 1) WHERE ended_at = ''""",
        (journal_rows.RESTORED_TURN, MAX_RESUMES),
    ),
)
"""Statements after which the turns and effects that a backup has unfinished wait for a person."""
