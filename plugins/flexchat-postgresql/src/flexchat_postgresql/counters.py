"""Counters in PostgreSQL: a reservation is one statement, by the database's clock."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import LiteralString

import attrs
from flexchat.store import Charge, HourlySum, Refusal, effect_rows, hour_text

from .connections import Connection, Connections
from .owners import Renewer, extend

# counter_clock has one row: when the clock was last set forward, as far as a process has noticed. The functions follow
# conversations/counter_rows.py of core, and the same laws hold for both. Counters are locked in the order of their
# keys, and settled in that order; the time is read once all are locked, so that it never runs backwards in a row.
TABLES: LiteralString = """
    CREATE TABLE {s}.counters (
        key text COLLATE "C" PRIMARY KEY, used bigint NOT NULL DEFAULT 0, held bigint NOT NULL DEFAULT 0,
        until bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE {s}.counter_reservations (
        id text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, labels text COLLATE "C" NOT NULL,
        worst jsonb NOT NULL, held jsonb NOT NULL
    );
    CREATE SEQUENCE {s}.counter_tickets;
    CREATE TABLE {s}.counter_waiters (
        number bigint NOT NULL, id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, amount bigint NOT NULL,
        until bigint NOT NULL, owner text COLLATE "C" NOT NULL, PRIMARY KEY (key, number)
    );
    CREATE INDEX counter_waiters_by_id ON {s}.counter_waiters (id);
    CREATE TABLE {s}.counter_sums (
        hour bigint NOT NULL, labels text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, value bigint NOT NULL,
        PRIMARY KEY (hour, labels, name)
    );
    CREATE TABLE {s}.counter_clock (jumped bigint NOT NULL);
    INSERT INTO {s}.counter_clock VALUES (0);
    CREATE FUNCTION {s}.counter_now() RETURNS bigint LANGUAGE sql AS $$
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    $$;
    CREATE FUNCTION {s}.counter_period_end(period text, length bigint, now bigint) RETURNS bigint LANGUAGE sql AS $$
        SELECT CASE period WHEN '' THEN 0 WHEN 'turn' THEN now + length ELSE (extract(epoch FROM
            (date_trunc(period, to_timestamp(now / 1000000) AT TIME ZONE 'UTC') + ('1 ' || period)::interval)
            AT TIME ZONE 'UTC') * 1000000)::bigint END
    $$;
    CREATE FUNCTION {s}.settle_counters(p_id text, p_amounts jsonb, p_sums jsonb) RETURNS boolean
    LANGUAGE plpgsql AS $$
    DECLARE
        c record;
        found {s}.counter_reservations;
    BEGIN
        DELETE FROM {s}.counter_waiters WHERE id = p_id;
        DELETE FROM {s}.counter_reservations WHERE id = p_id RETURNING * INTO found;
        IF found.id IS NULL THEN
            RETURN false;
        END IF;
        FOR c IN SELECT * FROM jsonb_to_recordset(found.held) AS x (key text, amount bigint, until bigint)
            ORDER BY key COLLATE "C"
        LOOP
            UPDATE {s}.counters SET held = held - c.amount, used = used + CASE WHEN p_amounts IS NOT NULL
                THEN coalesce((p_amounts ->> c.key)::bigint, 0) WHEN c.until <> 0 THEN c.amount ELSE 0 END
            WHERE key = c.key AND until = c.until;
        END LOOP;
        INSERT INTO {s}.counter_sums AS s
        SELECT {s}.counter_now() / 3600000000, found.labels, x.key, x.value::bigint
        FROM jsonb_each_text(coalesce(p_sums, found.worst)) x ORDER BY x.key COLLATE "C"
        ON CONFLICT (hour, labels, name) DO UPDATE SET value = s.value + excluded.value;
        RETURN true;
    END $$;
    CREATE FUNCTION {s}.expire_counters() RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        r record;
        any_expired boolean := false;
    BEGIN
        FOR r IN SELECT id FROM {s}.counter_reservations e WHERE NOT EXISTS (
            SELECT FROM {s}.owners o, {s}.counter_clock WHERE o.owner = e.owner AND (o.alive_until > clock_timestamp()
            OR {s}.counter_now() - jumped < o.lease_s * 1000000)
        ) ORDER BY id FOR UPDATE SKIP LOCKED
        LOOP
            any_expired := {s}.settle_counters(r.id, NULL, NULL) OR any_expired;
        END LOOP;
        RETURN any_expired;
    END $$;
    CREATE FUNCTION {s}.reserve_counters(
        p_id text, p_owner text, p_labels text, p_worst jsonb, p_charges jsonb, p_wait bigint, p_expected bigint,
        OUT refused text, OUT room bigint, OUT wait_us bigint, OUT now bigint
    ) LANGUAGE plpgsql AS $$
    DECLARE
        c record;
        r {s}.counters;
        jump bigint;
        ticket bigint;
        ahead bigint;
        filled bigint;
        free bigint;
        retry bigint;
        taken jsonb := '[]';
        waiting jsonb := '[]';
    BEGIN
        IF EXISTS (SELECT FROM {s}.counter_reservations WHERE id = p_id) THEN
            now := {s}.counter_now();
            RETURN;
        END IF;
        FOR c IN SELECT key FROM jsonb_to_recordset(p_charges) AS x (key text) ORDER BY key COLLATE "C" LOOP
            PERFORM FROM {s}.counters WHERE key = c.key FOR UPDATE;
            IF NOT FOUND THEN
                INSERT INTO {s}.counters (key) VALUES (c.key) ON CONFLICT DO NOTHING;
                PERFORM FROM {s}.counters WHERE key = c.key FOR UPDATE;
            END IF;
        END LOOP;
        now := {s}.counter_now();
        SELECT jumped INTO jump FROM {s}.counter_clock;
        IF now > p_expected OR jump > now THEN
            UPDATE {s}.counter_clock SET jumped = now;
            jump := now;
        END IF;
        SELECT min(number) INTO ticket FROM {s}.counter_waiters WHERE id = p_id;
        FOR c IN SELECT * FROM jsonb_to_recordset(p_charges) AS x (
            key text, amount bigint, ceiling bigint, spare bigint, period text, refill_us bigint, length_us bigint
        ) LOOP
            SELECT * INTO r FROM {s}.counters WHERE key = c.key;
            SELECT coalesce(sum(w.amount), 0) INTO ahead FROM {s}.counter_waiters w
            WHERE w.key = c.key AND w.until > now AND (ticket IS NULL OR w.number < ticket)
            AND EXISTS (SELECT FROM {s}.owners o WHERE o.owner = w.owner AND o.alive_until > clock_timestamp());
            IF c.refill_us > 0 THEN
                filled := c.ceiling * c.refill_us;
                r.until := least(greatest(r.until, now, jump + filled), now + filled);
                filled := now + filled - r.until;
                free := filled / c.refill_us;
                retry := (c.amount + ahead) * c.refill_us - filled;
                r.until := r.until + c.amount * c.refill_us;
            ELSE
                IF c.period <> '' THEN
                    IF r.until = 0 OR (now >= r.until AND now - jump >= c.length_us) THEN
                        r.used := 0;
                        r.held := 0;
                        r.until := {s}.counter_period_end(c.period, c.length_us, now);
                    ELSIF r.until > now + c.length_us THEN
                        r.until := {s}.counter_period_end(c.period, c.length_us, now);
                    END IF;
                END IF;
                free := c.ceiling - r.used - r.held;
                retry := CASE WHEN c.period IN ('', 'turn') THEN NULL ELSE r.until - now END;
                r.held := r.held + c.amount;
            END IF;
            IF free - ahead < c.amount + c.spare THEN
                IF refused IS NULL THEN
                    refused := c.key;
                    room := greatest(free, 0);
                    wait_us := CASE WHEN retry IS NOT NULL THEN greatest(retry, 0) END;
                END IF;
                waiting := waiting || jsonb_build_object('key', c.key, 'amount', c.amount);
            END IF;
            taken := taken || jsonb_build_object('key', c.key, 'amount', c.amount, 'used', r.used, 'held', r.held,
                'until', r.until, 'refill_us', c.refill_us);
        END LOOP;
        IF refused IS NOT NULL THEN
            IF p_wait > 0 THEN
                ticket := coalesce(ticket, nextval('{s}.counter_tickets'));
                DELETE FROM {s}.counter_waiters w USING jsonb_to_recordset(waiting) AS x (key text)
                WHERE w.key = x.key AND w.until < now;
                INSERT INTO {s}.counter_waiters SELECT ticket, p_id, x.key, x.amount, now + p_wait, p_owner
                FROM jsonb_to_recordset(waiting) AS x (key text, amount bigint) ON CONFLICT DO NOTHING;
            END IF;
            RETURN;
        END IF;
        IF ticket IS NOT NULL THEN
            DELETE FROM {s}.counter_waiters WHERE id = p_id;
        END IF;
        UPDATE {s}.counters t SET used = x.used, held = x.held, until = x.until
        FROM jsonb_to_recordset(taken) AS x (key text, used bigint, held bigint, until bigint) WHERE t.key = x.key;
        INSERT INTO {s}.counter_reservations SELECT p_id, p_owner, p_labels, p_worst, coalesce(jsonb_agg(x), '[]')
        FROM jsonb_array_elements(taken) x WHERE (x ->> 'refill_us')::bigint = 0;
    END $$
    """

# What a machine last saw of the database's clock, with the time since its boot then, both in microseconds.
LOOKS: LiteralString = """
    CREATE TABLE {s}.counter_looks (boot text COLLATE "C" PRIMARY KEY, clock bigint NOT NULL, uptime bigint NOT NULL)
    """

_RESERVE: LiteralString = (
    "SELECT * FROM {s}.reserve_counters(%(id)s, %(owner)s, %(labels)s, %(worst)s, %(charges)s, %(wait)s, %(expected)s)"
)
# Lost with the server's last moment, a settlement leaves the reservation, which takes no less.
_SETTLE: LiteralString = (
    "SELECT {s}.settle_counters(%(id)s, %(amounts)s, %(sums)s), set_config('synchronous_commit', 'off', true)"
)
_LAST_LOOK: LiteralString = "SELECT clock, uptime FROM {s}.counter_looks WHERE boot = %s"
_LOOK: LiteralString = """
    INSERT INTO {s}.counter_looks AS last VALUES (%s, %s, %s)
    ON CONFLICT (boot) DO UPDATE SET clock = excluded.clock, uptime = excluded.uptime
    WHERE last.uptime < excluded.uptime"""
_LOOK_US = 60_000_000  # between two looks of a process that are stored
_DRIFT_US = 2_000_000  # between two looks at the clock, beside a hundredth of the time; more is a jump
_FORGET_US = 62 * 86_400_000_000  # after the end of a period: longer than any


class PostgresqlCounters:
    """CounterStore in PostgreSQL.

    A process compares the database's clock with the machine's time since boot, to notice that it was set forward, at
    first with what the last process on its machine saw.
    """

    def __init__(self, connections: Connections, renewer: Renewer) -> None:
        self._connections, self._renewer = connections, renewer
        self._seen: tuple[int, int] | None = None  # the database's clock, and the time since boot then
        self._stored = -_LOOK_US  # the time since boot of the look that was last stored

    async def reserve(
        self,
        id: str,
        charges: Sequence[Charge],
        *,
        owner: str,
        lease_s: float | None = None,
        labels: Mapping[str, str] | None = None,
        worst: Mapping[str, int] | None = None,
        wait_s: float = 0.0,
    ) -> Refusal | None:
        """Reserve amounts; see CounterStore."""
        values = {
            "id": id,
            "owner": owner,
            "labels": _json(labels or {}),
            "worst": _json(worst or {}),
            "charges": json.dumps([{**attrs.asdict(each), "length_us": each.length_us} for each in charges]),
            "wait": round(wait_s * 1e6),
        }

        async def reserve(connection: Connection) -> Refusal | None:
            if lease_s is not None:
                await extend(connection, owner, lease_s)
            refusal = await self._take(connection, values)
            if refusal is not None and await connection.row("SELECT 1 WHERE {s}.expire_counters()"):
                refusal = await self._take(connection, values)
            return refusal

        return await self._connections.repeated(reserve, alone=True)

    async def _take(self, connection: Connection, values: Mapping[str, object]) -> Refusal | None:
        if self._seen is None and effect_rows.boot_id():
            self._seen = await connection.row(_LAST_LOOK, (effect_rows.boot_id(),))
        expected = None
        if self._seen is not None:
            passed_us = _uptime_us() - self._seen[1]
            expected = self._seen[0] + round(passed_us * 1.01) + _DRIFT_US
        row = await connection.row(_RESERVE, {**values, "expected": expected})
        assert row is not None
        key, left, wait_us, now = row
        self._seen = now, _uptime_us()
        has_jumped = expected is not None and now > expected
        if effect_rows.boot_id() and (has_jumped or self._seen[1] - self._stored >= _LOOK_US):
            self._stored = self._seen[1]
            await connection.execute(_LOOK, (effect_rows.boot_id(), *self._seen))
        if key is None:
            return None
        return Refusal(key=key, left=left, retry_after_s=None if wait_us is None else wait_us / 1e6)

    async def settle(self, id: str, amounts: Mapping[str, int], *, sums: Mapping[str, int] | None = None) -> bool:
        """Settle a reservation; see CounterStore."""
        values = {"id": id, "amounts": _json(amounts), "sums": _json(sums or {})}
        row = await self._connections.repeated(lambda connection: connection.row(_SETTLE, values), alone=True)
        return row is not None and bool(row[0])

    async def sums(self, *, since_s: float = 0.0) -> Sequence[HourlySum]:
        """List the hourly sums; see CounterStore."""
        statement: LiteralString = (
            "SELECT hour, labels, jsonb_object_agg(name, value) FROM {s}.counter_sums WHERE (hour + 1) * 3600 > %s "
            "GROUP BY hour, labels ORDER BY hour, labels"
        )
        rows = await self._connections.repeated(lambda connection: connection.rows(statement, (since_s,)), alone=True)
        return [HourlySum(hour=hour_text(hour), labels=json.loads(labels), values=v) for hour, labels, v in rows]

    async def forget(self) -> None:
        """Delete counters whose period is long over; see CounterStore."""
        statement: LiteralString = (
            "DELETE FROM {s}.counters WHERE held = 0 AND (until BETWEEN 1 AND {s}.counter_now() - %s "
            "OR (used = 0 AND until < {s}.counter_now()))"
        )
        await self._connections.repeated(lambda connection: connection.execute(statement, (_FORGET_US,)), alone=True)

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease; see CounterStore."""
        self._renewer.renew(owner, lease_s)


def _uptime_us() -> int:
    return round(effect_rows.seconds_since_boot() * 1e6)


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(dict(values), sort_keys=True)
