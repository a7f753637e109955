SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA kept;
CREATE FUNCTION kept.counter_now() RETURNS bigint
    LANGUAGE sql
    AS $$
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    $$;
CREATE FUNCTION kept.counter_period_end(period text, length bigint, now bigint) RETURNS bigint
    LANGUAGE sql
    AS $$
        SELECT CASE period WHEN '' THEN 0 WHEN 'turn' THEN now + length ELSE (extract(epoch FROM
            (date_trunc(period, to_timestamp(now / 1000000) AT TIME ZONE 'UTC') + ('1 ' || period)::interval)
            AT TIME ZONE 'UTC') * 1000000)::bigint END
    $$;
CREATE FUNCTION kept.delete_unused_medium() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        PERFORM 1 FROM "kept".media WHERE number = OLD.medium FOR UPDATE;
        DELETE FROM "kept".media WHERE number = OLD.medium AND held_until = ''
            AND NOT EXISTS (SELECT FROM "kept".media_uses WHERE medium = OLD.medium);
        RETURN NULL;
    END $$;
CREATE FUNCTION kept.expire_counters() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
    DECLARE
        r record;
        any_expired boolean := false;
    BEGIN
        FOR r IN SELECT id FROM "kept".counter_reservations e WHERE NOT EXISTS (
            SELECT FROM "kept".owners o, "kept".counter_clock WHERE o.owner = e.owner AND (o.alive_until > clock_timestamp()
            OR "kept".counter_now() - jumped < o.lease_s * 1000000)
        ) ORDER BY id FOR UPDATE SKIP LOCKED
        LOOP
            any_expired := "kept".settle_counters(r.id, NULL, NULL) OR any_expired;
        END LOOP;
        RETURN any_expired;
    END $$;
CREATE FUNCTION kept.mark_next() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended(NEW.tenant || ' ' || NEW.conversation, 0));
        UPDATE "kept".journal_turns SET is_next = true
        WHERE NOT is_next AND number = (
            SELECT min(number) FROM "kept".journal_turns
            WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'accepted'
        ) AND NOT EXISTS (
            SELECT FROM "kept".journal_turns
            WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state IN ('running', 'suspended')
        );
        RETURN NULL;
    END $$;
CREATE FUNCTION kept.reserve_counters(p_id text, p_owner text, p_labels text, p_worst jsonb, p_charges jsonb, p_wait bigint, p_expected bigint, OUT refused text, OUT room bigint, OUT wait_us bigint, OUT now bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
    DECLARE
        c record;
        r "kept".counters;
        jump bigint;
        ticket bigint;
        ahead bigint;
        filled bigint;
        free bigint;
        retry bigint;
        taken jsonb := '[]';
        waiting jsonb := '[]';
    BEGIN
        IF EXISTS (SELECT FROM "kept".counter_reservations WHERE id = p_id) THEN
            now := "kept".counter_now();
            RETURN;
        END IF;
        FOR c IN SELECT key FROM jsonb_to_recordset(p_charges) AS x (key text) ORDER BY key COLLATE "C" LOOP
            PERFORM FROM "kept".counters WHERE key = c.key FOR UPDATE;
            IF NOT FOUND THEN
                INSERT INTO "kept".counters (key) VALUES (c.key) ON CONFLICT DO NOTHING;
                PERFORM FROM "kept".counters WHERE key = c.key FOR UPDATE;
            END IF;
        END LOOP;
        now := "kept".counter_now();
        SELECT jumped INTO jump FROM "kept".counter_clock;
        IF now > p_expected OR jump > now THEN
            UPDATE "kept".counter_clock SET jumped = now;
            jump := now;
        END IF;
        SELECT min(number) INTO ticket FROM "kept".counter_waiters WHERE id = p_id;
        FOR c IN SELECT * FROM jsonb_to_recordset(p_charges) AS x (
            key text, amount bigint, ceiling bigint, spare bigint, period text, refill_us bigint, length_us bigint
        ) LOOP
            SELECT * INTO r FROM "kept".counters WHERE key = c.key;
            SELECT coalesce(sum(w.amount), 0) INTO ahead FROM "kept".counter_waiters w
            WHERE w.key = c.key AND w.until > now AND (ticket IS NULL OR w.number < ticket)
            AND EXISTS (SELECT FROM "kept".owners o WHERE o.owner = w.owner AND o.alive_until > clock_timestamp());
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
                        r.until := "kept".counter_period_end(c.period, c.length_us, now);
                    ELSIF r.until > now + c.length_us THEN
                        r.until := "kept".counter_period_end(c.period, c.length_us, now);
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
                ticket := coalesce(ticket, nextval('"kept".counter_tickets'));
                DELETE FROM "kept".counter_waiters w USING jsonb_to_recordset(waiting) AS x (key text)
                WHERE w.key = x.key AND w.until < now;
                INSERT INTO "kept".counter_waiters SELECT ticket, p_id, x.key, x.amount, now + p_wait, p_owner
                FROM jsonb_to_recordset(waiting) AS x (key text, amount bigint) ON CONFLICT DO NOTHING;
            END IF;
            RETURN;
        END IF;
        IF ticket IS NOT NULL THEN
            DELETE FROM "kept".counter_waiters WHERE id = p_id;
        END IF;
        UPDATE "kept".counters t SET used = x.used, held = x.held, until = x.until
        FROM jsonb_to_recordset(taken) AS x (key text, used bigint, held bigint, until bigint) WHERE t.key = x.key;
        INSERT INTO "kept".counter_reservations SELECT p_id, p_owner, p_labels, p_worst, coalesce(jsonb_agg(x), '[]')
        FROM jsonb_array_elements(taken) x WHERE (x ->> 'refill_us')::bigint = 0;
    END $$;
CREATE FUNCTION kept.settle_counters(p_id text, p_amounts jsonb, p_sums jsonb) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
    DECLARE
        c record;
        found "kept".counter_reservations;
    BEGIN
        DELETE FROM "kept".counter_waiters WHERE id = p_id;
        DELETE FROM "kept".counter_reservations WHERE id = p_id RETURNING * INTO found;
        IF found.id IS NULL THEN
            RETURN false;
        END IF;
        FOR c IN SELECT * FROM jsonb_to_recordset(found.held) AS x (key text, amount bigint, until bigint)
            ORDER BY key COLLATE "C"
        LOOP
            UPDATE "kept".counters SET held = held - c.amount, used = used + CASE WHEN p_amounts IS NOT NULL
                THEN coalesce((p_amounts ->> c.key)::bigint, 0) WHEN c.until <> 0 THEN c.amount ELSE 0 END
            WHERE key = c.key AND until = c.until;
        END LOOP;
        INSERT INTO "kept".counter_sums AS s
        SELECT "kept".counter_now() / 3600000000, found.labels, x.key, x.value::bigint
        FROM jsonb_each_text(coalesce(p_sums, found.worst)) x ORDER BY x.key COLLATE "C"
        ON CONFLICT (hour, labels, name) DO UPDATE SET value = s.value + excluded.value;
        RETURN true;
    END $$;
CREATE SEQUENCE kept.conversation_uses
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE kept.conversations (
    tenant text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL,
    folded_title text NOT NULL COLLATE pg_catalog."C",
    topic text NOT NULL,
    turns bigint NOT NULL,
    started_at text NOT NULL,
    used_at text NOT NULL,
    used bigint NOT NULL,
    cost bigint,
    unpriced bigint DEFAULT 0 NOT NULL
);
CREATE TABLE kept.counter_clock (
    jumped bigint NOT NULL
);
CREATE TABLE kept.counter_reservations (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    labels text NOT NULL COLLATE pg_catalog."C",
    worst jsonb NOT NULL,
    held jsonb NOT NULL
);
CREATE TABLE kept.counter_sums (
    hour bigint NOT NULL,
    labels text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL
);
CREATE SEQUENCE kept.counter_tickets
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE kept.counter_waiters (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    amount bigint NOT NULL,
    until bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE kept.counters (
    key text NOT NULL COLLATE pg_catalog."C",
    used bigint DEFAULT 0 NOT NULL,
    held bigint DEFAULT 0 NOT NULL,
    until bigint DEFAULT 0 NOT NULL
);
CREATE TABLE kept.effects (
    number bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    turn text NOT NULL COLLATE pg_catalog."C",
    place text NOT NULL,
    tool text NOT NULL,
    digest text NOT NULL,
    arguments text NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    fence bigint NOT NULL,
    result text,
    claimed_at text NOT NULL COLLATE pg_catalog."C",
    ended_at text NOT NULL COLLATE pg_catalog."C",
    settled_by text NOT NULL,
    note text NOT NULL,
    token text NOT NULL,
    handle text,
    honours_key boolean DEFAULT false NOT NULL
);
ALTER TABLE kept.effects ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.effects_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.journal_entries (
    turn text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    kind text NOT NULL,
    data text NOT NULL,
    at text NOT NULL
);
CREATE TABLE kept.journal_events (
    turn text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    name text NOT NULL,
    data text NOT NULL
);
CREATE TABLE kept.journal_turns (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    fence bigint NOT NULL,
    began_at text NOT NULL COLLATE pg_catalog."C",
    ended_at text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    error text DEFAULT ''::text NOT NULL,
    token text DEFAULT ''::text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    suspensions bigint DEFAULT 0 NOT NULL,
    cancelled_by text DEFAULT ''::text NOT NULL,
    due_at text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    priority bigint DEFAULT 0 NOT NULL,
    is_next boolean DEFAULT false NOT NULL,
    format integer DEFAULT 1 NOT NULL
);
ALTER TABLE kept.journal_turns ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.journal_turns_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.media (
    number bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    sha256 text COLLATE pg_catalog."C",
    bytes bigint NOT NULL,
    held_until text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE kept.media_migration (
    tenant text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL
);
ALTER TABLE kept.media ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.media_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.media_pieces (
    medium bigint NOT NULL,
    place bigint NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE ONLY kept.media_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE kept.media_uses (
    medium bigint NOT NULL,
    tenant text COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    turn text COLLATE pg_catalog."C",
    journaled text COLLATE pg_catalog."C"
);
CREATE TABLE kept.owners (
    owner text NOT NULL COLLATE pg_catalog."C",
    alive_until timestamp with time zone NOT NULL,
    lease_s double precision NOT NULL,
    renewals bigint NOT NULL
);
CREATE TABLE kept.questions (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    turn text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    asked_at text NOT NULL,
    expires_at text NOT NULL COLLATE pg_catalog."C",
    replied_by text NOT NULL,
    replied_at text NOT NULL,
    used_by text NOT NULL COLLATE pg_catalog."C",
    remembered text NOT NULL COLLATE pg_catalog."C",
    question text NOT NULL,
    reply text,
    send_at text COLLATE pg_catalog."C",
    is_accepted boolean DEFAULT false NOT NULL,
    is_recorded boolean DEFAULT false NOT NULL,
    token text DEFAULT ''::text NOT NULL
);
ALTER TABLE kept.questions ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.questions_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.turn_keys (
    tenant text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    turn text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL,
    begun boolean DEFAULT false NOT NULL,
    bound_at text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE kept.turns (
    tenant text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    folded_text text NOT NULL COLLATE pg_catalog."C",
    turn text NOT NULL,
    status text DEFAULT 'done'::text NOT NULL COLLATE pg_catalog."C",
    history text,
    serial bigint NOT NULL
);
ALTER TABLE kept.turns ALTER COLUMN serial ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.turns_serial_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.versions (
    part text NOT NULL,
    version integer NOT NULL
);
INSERT INTO kept.conversations VALUES ('default', 'drawn', 'Draw this.', 'draw this.', 'Draw this.', 1, '2026-11-28T12:48:50.912+00:00', '2026-11-28T12:48:50.912+00:00', 2, NULL, 1);
INSERT INTO kept.conversations VALUES ('default', 'plain', 'Hello', 'hello', 'Pay 5.', 2, '2026-11-28T12:48:50.655+00:00', '2026-11-28T12:48:51.055+00:00', 3, NULL, 2);
INSERT INTO kept.counter_clock VALUES (0);
INSERT INTO kept.counter_reservations VALUES ('c', 'killed', '{"tenant": "default", "tool": "pay"}', '{"trillionths": 100}', '[{"key": "all/month", "held": 100, "used": 500, "until": 1796083200000000, "amount": 100, "refill_us": 0}]');
INSERT INTO kept.counter_sums VALUES (498852, '{"tenant": "default", "tool": "pay"}', 'calls', 2);
INSERT INTO kept.counter_sums VALUES (498852, '{"tenant": "default", "tool": "pay"}', 'trillionths', 500);
INSERT INTO kept.counters VALUES ('ever', 500, 0, 0);
INSERT INTO kept.counters VALUES ('all/month', 500, 100, 1796083200000000);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (1, 'a3b5ecac8da99147c7bc93924c7c81810ec7d56738c10d0fd19b188e37271b5c', 'default', 'drawn', '41dd354d48961d07f0991a13d91971c1', '1.0', 'draw', '22daba19b7cc8316635a68734e8bfe79239d3c9807813e332d6a66adcacb2469', '{"subject": "a pixel"}', 'done', 'fda00d21a2b067b1c0989bde94abdb2b', 1, '{"success": true, "tool_name": "draw", "result": {"subject": "a pixel"}, "media": [{"type": "media", "kind": "image", "mime_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "name": "drawing.png"}]}', '2026-11-28T12:48:50.852+00:00', '2026-11-28T12:48:50.864+00:00', '', '', '30b0ddd3d9090346', NULL, false);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (2, '43f444653ff1713b6c341c2e9f43527d23ea743e550cfaa5a987d613e385ec73', 'default', 'plain', '028bd15867b95ab6d64776e50bee1cde', '1.0', 'pay', '1fbcdee1ed3766713bdf75f2a44edd3a0e32251a0e7f6571e01aa4f7abc80ada', '{"amount": 5}', 'done', 'fda00d21a2b067b1c0989bde94abdb2b', 1, '{"success": true, "tool_name": "pay", "result": "paid 5"}', '2026-11-28T12:48:51.028+00:00', '2026-11-28T12:48:51.036+00:00', '', '', 'c43cba90c9e42ef1', NULL, false);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (3, 'df74dfc73821fe0b42ece50437c4bb5f60e3652c4fde24af282938841816a44f', 'default', 'interrupted', '857198f45ba514e6b00eb779947fc29c', '1.0', 'order', 'aca08fa316a208c7c3e6e152ce30f7a75eb1907ce23aa432233640f9c31e75f0', '{"item": "lamp"}', 'claimed', 'b3fb350f06cc43d41cfa8d83007c9485', 1, NULL, '2026-11-28T12:48:56.336+00:00', '', '', '', '08064993ad53f523', NULL, true);
INSERT INTO kept.journal_entries VALUES ('cda35573412c63a3bafa6eb604334f1f', 1, 'started', '{"request":{"user_message":"Hello","conversation":"plain","traceparent":"00-b4a686fe0655762c6ccbc186439a39a5-fc211b4a7684efea-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:48:50.616+00:00');
INSERT INTO kept.journal_entries VALUES ('cda35573412c63a3bafa6eb604334f1f', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}', '2026-11-28T12:48:50.617+00:00');
INSERT INTO kept.journal_entries VALUES ('cda35573412c63a3bafa6eb604334f1f', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-28T12:48:50.617+00:00');
INSERT INTO kept.journal_entries VALUES ('cda35573412c63a3bafa6eb604334f1f', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Hello."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.06568200114998035,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:50.655+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 1, 'started', '{"request":{"user_message":"Draw this.","attachments":[{"type":"media","kind":"image","mime_type":"image/png","name":"photo.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}],"conversation":"drawn","traceparent":"00-a23050dffb8b847a42015dff545e4030-c1eea1c3ffc50b4a-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:48:50.795+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}', '2026-11-28T12:48:50.795+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-28T12:48:50.795+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_9P_HiuuM13HQWY3fOB_6Xw"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.13815399870509282,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:50.846+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":16,"result":{"subject":"a pixel"},"media":[{"type":"media","kind":"image","mime_type":"image/png","name":"drawing.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},"iteration":1,"call_id":"call_9P_HiuuM13HQWY3fOB_6Xw"},"wrote":true}', '2026-11-28T12:48:50.868+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 6, 'request', '{"llm":"bot","model":"m","messages":3}', '2026-11-28T12:48:50.876+00:00');
INSERT INTO kept.journal_entries VALUES ('41dd354d48961d07f0991a13d91971c1', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"It is drawn."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.09689900252851658,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:50.912+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 1, 'started', '{"request":{"user_message":"Pay 5.","conversation":"plain","traceparent":"00-107d8dc540fa04cbc25281b18e679397-bc8f55313f20446f-01","key":"request-1"},"after":"cda35573412c63a3bafa6eb604334f1f","config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:48:51.019+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}', '2026-11-28T12:48:51.019+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 3, 'request', '{"llm":"bot","model":"m","messages":3}', '2026-11-28T12:48:51.019+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_8rocGBLNGkwIhqRsaEjzSg"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.25063300199690275,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:51.027+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":9,"result":"paid 5"},"iteration":1,"call_id":"call_8rocGBLNGkwIhqRsaEjzSg"},"wrote":true}', '2026-11-28T12:48:51.037+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 6, 'request', '{"llm":"bot","model":"m","messages":5}', '2026-11-28T12:48:51.037+00:00');
INSERT INTO kept.journal_entries VALUES ('028bd15867b95ab6d64776e50bee1cde', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Paid."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.1279700009035878,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:51.055+00:00');
INSERT INTO kept.journal_entries VALUES ('07841c3df4c991aa8c70115b64df9aa3', 1, 'started', '{"request":{"user_message":"Sign the lease.","conversation":"signed","traceparent":"00-70e1c0fb188a1a1d50ff0b19688ee578-968306d8c1c312cd-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:48:51.087+00:00');
INSERT INTO kept.journal_entries VALUES ('07841c3df4c991aa8c70115b64df9aa3', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}', '2026-11-28T12:48:51.087+00:00');
INSERT INTO kept.journal_entries VALUES ('07841c3df4c991aa8c70115b64df9aa3', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-28T12:48:51.087+00:00');
INSERT INTO kept.journal_entries VALUES ('07841c3df4c991aa8c70115b64df9aa3', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"sign","arguments":{"paper":"lease"},"id":"call_1TtOU8jl8OmbEiUE0nEHrw"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.10896599997067824,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:51.099+00:00');
INSERT INTO kept.journal_entries VALUES ('07841c3df4c991aa8c70115b64df9aa3', 5, 'question', '{"iteration":1,"index":0,"place":"1.0","call":"f1e7d1f24b78070e3e6634c3edd8d1d60441db56cf24dcd95e91cc5b7d567be9","question":{"message":"Run sign with {\"paper\": \"lease\"}?","id":"call_vcQgdY5-zFuFLVSffkoBjA","tool":"sign","call_id":"call_1TtOU8jl8OmbEiUE0nEHrw","digest":"1d55dbff73476ae1cc52d1021a0806500d44e058e75ce428662850b4a7016410","details":{"arguments":{"paper":"lease"}}}}', '2026-11-28T12:48:51.111+00:00');
INSERT INTO kept.journal_entries VALUES ('d4f1086827f468e8136e54180494568f', 1, 'accepted', '{"request":{"user_message":"Later.","conversation":"accepted","traceparent":"00-eaa91b79714602c0de54f2e9d334d263-11d87100cd5a4547-01","key":"request-2"}}', '2026-11-28T12:48:51.155+00:00');
INSERT INTO kept.journal_entries VALUES ('857198f45ba514e6b00eb779947fc29c', 1, 'started', '{"request":{"user_message":"Order a lamp.","conversation":"interrupted","traceparent":"00-2755964ec70e579a0731cbb7212f80b5-89d4e79b2b0da148-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:48:56.281+00:00');
INSERT INTO kept.journal_entries VALUES ('857198f45ba514e6b00eb779947fc29c', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","refuse","order","sign"],"sources":{}}', '2026-11-28T12:48:56.281+00:00');
INSERT INTO kept.journal_entries VALUES ('857198f45ba514e6b00eb779947fc29c', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-28T12:48:56.282+00:00');
INSERT INTO kept.journal_entries VALUES ('857198f45ba514e6b00eb779947fc29c', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"lamp"},"id":"call_-zpx-Won6whVktfCak1rcQ"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.07103700045263395,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-28T12:48:56.321+00:00');
INSERT INTO kept.journal_entries VALUES ('05030cf2fcef27cd9d1e01b9d8b54503', 1, 'started', '{"request":{"user_message":"Think.","conversation":"running","traceparent":"00-733bdedd11bc5d856727f3f47c840ebf-408ba536eefecf73-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-28T12:49:00.243+00:00');
INSERT INTO kept.journal_entries VALUES ('05030cf2fcef27cd9d1e01b9d8b54503', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}', '2026-11-28T12:49:00.243+00:00');
INSERT INTO kept.journal_entries VALUES ('05030cf2fcef27cd9d1e01b9d8b54503', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-28T12:49:00.244+00:00');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (1, 'cda35573412c63a3bafa6eb604334f1f', 'default', 'plain', 'done', 'Hello', '34fd1a13654c5fc20d08dc89d4a7254a', 1, '2026-11-28T12:48:50.635+00:00', '2026-11-28T12:48:50.655+00:00', '', '', '', 0, '', '', 0, false, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (2, '41dd354d48961d07f0991a13d91971c1', 'default', 'drawn', 'done', 'Draw this.', '34fd1a13654c5fc20d08dc89d4a7254a', 1, '2026-11-28T12:48:50.807+00:00', '2026-11-28T12:48:50.912+00:00', '', '', '', 0, '', '', 0, false, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (3, '028bd15867b95ab6d64776e50bee1cde', 'default', 'plain', 'done', 'Pay 5.', '34fd1a13654c5fc20d08dc89d4a7254a', 1, '2026-11-28T12:48:51.019+00:00', '2026-11-28T12:48:51.055+00:00', '', '', 'request-1', 0, '', '', 0, false, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (4, '07841c3df4c991aa8c70115b64df9aa3', 'default', 'signed', 'suspended', 'Sign the lease.', '', 1, '2026-11-28T12:48:51.088+00:00', '', '', '', '', 1, '', '', 0, false, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (5, 'd4f1086827f468e8136e54180494568f', 'default', 'accepted', 'accepted', 'Later.', '', 0, '2026-11-28T12:48:51.155+00:00', '', '', '', 'request-2', 0, '', '', 0, true, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (6, '857198f45ba514e6b00eb779947fc29c', 'default', 'interrupted', 'running', 'Order a lamp.', '525d0c6695d994ac48077ef768fd2d3b', 1, '2026-11-28T12:48:56.304+00:00', '', '', '', '', 0, '', '', 0, false, 1);
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (7, '05030cf2fcef27cd9d1e01b9d8b54503', 'default', 'running', 'running', 'Think.', '2bc63179c570b882180cbb64adfa250b', 1, '2026-11-28T12:49:00.245+00:00', '', '', '', '', 0, '', '', 0, false, 1);
INSERT INTO kept.media OVERRIDING SYSTEM VALUE VALUES (1, 'default', '6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0', 70, '');
INSERT INTO kept.media_migration VALUES ('', '', 0);
INSERT INTO kept.media_pieces VALUES (1, 0, '\x89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8cf500f00038601805a347d6b0000000049454e44ae426082');
INSERT INTO kept.media_uses VALUES (1, NULL, NULL, NULL, '41dd354d48961d07f0991a13d91971c1');
INSERT INTO kept.media_uses VALUES (1, 'default', 'drawn', '41dd354d48961d07f0991a13d91971c1', NULL);
INSERT INTO kept.owners VALUES ('34fd1a13654c5fc20d08dc89d4a7254a', '2026-11-28 12:48:52.835719+00', 2, 2);
INSERT INTO kept.owners VALUES ('fda00d21a2b067b1c0989bde94abdb2b', '2026-11-28 12:48:53.52107+00', 2, 1);
INSERT INTO kept.owners VALUES ('ended', '2026-11-28 13:02:11.159623+00', 600, 1);
INSERT INTO kept.owners VALUES ('killed', '2026-11-28 12:48:51.224548+00', 0.01, 1);
INSERT INTO kept.owners VALUES ('525d0c6695d994ac48077ef768fd2d3b', '2026-11-28 12:48:58.96397+00', 2, 1);
INSERT INTO kept.owners VALUES ('b3fb350f06cc43d41cfa8d83007c9485', '2026-11-28 12:48:59.007658+00', 2, 1);
INSERT INTO kept.owners VALUES ('2bc63179c570b882180cbb64adfa250b', '2026-11-28 12:49:02.912421+00', 2, 1);
INSERT INTO kept.questions OVERRIDING SYSTEM VALUE VALUES (1, 'call_vcQgdY5-zFuFLVSffkoBjA', 'default', 'signed', '07841c3df4c991aa8c70115b64df9aa3', '1d55dbff73476ae1cc52d1021a0806500d44e058e75ce428662850b4a7016410', 'open', '2026-11-28T12:48:51.110+00:00', '2026-12-05T12:48:51.110+00:00', '', '', '', '', '{"message":"Run sign with {\"paper\": \"lease\"}?","id":"call_vcQgdY5-zFuFLVSffkoBjA","tool":"sign","call_id":"call_1TtOU8jl8OmbEiUE0nEHrw","digest":"1d55dbff73476ae1cc52d1021a0806500d44e058e75ce428662850b4a7016410","details":{"arguments":{"paper":"lease"}}}', NULL, '2026-11-28T12:48:51.110+00:00', false, false, '');
INSERT INTO kept.turn_keys VALUES ('default', 'request-1', '028bd15867b95ab6d64776e50bee1cde', '6733c8cb929e7929f45b06385ef14120ba199dd541198c29266ee20fd7867b40', true, '2026-11-28T12:48:50.996+00:00');
INSERT INTO kept.turn_keys VALUES ('default', 'request-2', 'd4f1086827f468e8136e54180494568f', 'ebde3c514f6d1492435a3047e9038bfbcaa160a0a63f94b32217d7bb1370db61', true, '2026-11-28T12:48:51.152+00:00');
INSERT INTO kept.turns OVERRIDING SYSTEM VALUE VALUES ('default', 'plain', 1, 'cda35573412c63a3bafa6eb604334f1f', 'hello
hello.', '{"llm":"bot","model":"m","at":"2026-11-28T12:48:50.655+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Hello","status":"new_topic"},"elapsed_ms":0.06109800233389251,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.01857199822552502,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.005070000042906031,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.016052999853855},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.02358900019316934},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":0},"elapsed_ms":38.6328919994412}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.06568200114998035,"finish_reason":"stop"}],"tool_calls":[],"finish_reason":"stop","elapsed_ms":38.80105099960929,"traceparent":"00-b4a686fe0655762c6ccbc186439a39a5-fc211b4a7684efea-01"}', 'done', '{"id":"cda35573412c63a3bafa6eb604334f1f","messages":[{"role":"user","content":"Hello"},{"role":"assistant","parts":[{"type":"text","text":"Hello."}]}],"topic":"Hello"}', 1);
INSERT INTO kept.turns OVERRIDING SYSTEM VALUE VALUES ('default', 'drawn', 1, '41dd354d48961d07f0991a13d91971c1', 'draw this.
it is drawn.', '{"llm":"bot","model":"m","at":"2026-11-28T12:48:50.912+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Draw this.","status":"new_topic"},"elapsed_ms":0.061308997828746215,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.019535000319592655,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.007487000402761623,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.018445000023348257},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.034829001378966495},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":116.6987649994553}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.13815399870509282,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.09689900252851658,"finish_reason":"stop"}],"tool_calls":[{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":16,"result":{"subject":"a pixel"},"media":"as in the message"},"iteration":1,"call_id":"call_9P_HiuuM13HQWY3fOB_6Xw"}],"finish_reason":"stop","elapsed_ms":116.87671500112629,"traceparent":"00-a23050dffb8b847a42015dff545e4030-c1eea1c3ffc50b4a-01"}', 'done', '{"id":"41dd354d48961d07f0991a13d91971c1","messages":[{"role":"user","content":"Draw this.","media":[{"type":"media","kind":"image","mime_type":"image/png","name":"photo.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},{"role":"assistant","parts":[{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_9P_HiuuM13HQWY3fOB_6Xw"}]},{"role":"tool","tool_call_id":"call_9P_HiuuM13HQWY3fOB_6Xw","name":"draw","content":"{\"success\": true, \"result\": {\"subject\": \"a pixel\"}, \"tool_name\": \"draw\", \"execution_time_ms\": 16, \"media\": [{\"kind\": \"image\", \"mime_type\": \"image/png\", \"bytes\": 70, \"name\": \"drawing.png\"}]}","media":[{"type":"media","kind":"image","mime_type":"image/png","name":"drawing.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},{"role":"assistant","parts":[{"type":"text","text":"It is drawn."}]}],"topic":"Draw this."}', 2);
INSERT INTO kept.turns OVERRIDING SYSTEM VALUE VALUES ('default', 'plain', 2, '028bd15867b95ab6d64776e50bee1cde', 'pay 5.
paid.', '{"llm":"bot","model":"m","at":"2026-11-28T12:48:51.055+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Pay 5.","status":"new_topic"},"elapsed_ms":0.08869899829733185,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.02515099913580343,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.008622002496849746,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.020124000002397224},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.025680998078314587},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":35.856192000210285}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.25063300199690275,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.1279700009035878,"finish_reason":"stop"}],"tool_calls":[{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":9,"result":"paid 5"},"iteration":1,"call_id":"call_8rocGBLNGkwIhqRsaEjzSg"}],"finish_reason":"stop","elapsed_ms":36.09894900000654,"traceparent":"00-107d8dc540fa04cbc25281b18e679397-bc8f55313f20446f-01"}', 'done', '{"id":"028bd15867b95ab6d64776e50bee1cde","messages":[{"role":"user","content":"Pay 5."},{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_8rocGBLNGkwIhqRsaEjzSg"}]},{"role":"tool","tool_call_id":"call_8rocGBLNGkwIhqRsaEjzSg","name":"pay","content":"{\"success\": true, \"result\": \"paid 5\", \"tool_name\": \"pay\", \"execution_time_ms\": 9}"},{"role":"assistant","parts":[{"type":"text","text":"Paid."}]}],"topic":"Pay 5."}', 3);
INSERT INTO kept.versions VALUES ('conversations', 12);
INSERT INTO kept.versions VALUES ('conversations steps', 14);
SELECT pg_catalog.setval('kept.conversation_uses', 3, true);
SELECT pg_catalog.setval('kept.counter_tickets', 1, false);
SELECT pg_catalog.setval('kept.effects_number_seq', 3, true);
SELECT pg_catalog.setval('kept.journal_turns_number_seq', 7, true);
SELECT pg_catalog.setval('kept.media_number_seq', 4, true);
SELECT pg_catalog.setval('kept.questions_number_seq', 1, true);
SELECT pg_catalog.setval('kept.turns_serial_seq', 3, true);
ALTER TABLE ONLY kept.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (tenant, id);
ALTER TABLE ONLY kept.counter_reservations
    ADD CONSTRAINT counter_reservations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY kept.counter_sums
    ADD CONSTRAINT counter_sums_pkey PRIMARY KEY (hour, labels, name);
ALTER TABLE ONLY kept.counter_waiters
    ADD CONSTRAINT counter_waiters_pkey PRIMARY KEY (key, number);
ALTER TABLE ONLY kept.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (key);
ALTER TABLE ONLY kept.effects
    ADD CONSTRAINT effects_key_key UNIQUE (key);
ALTER TABLE ONLY kept.effects
    ADD CONSTRAINT effects_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kept.journal_entries
    ADD CONSTRAINT journal_entries_pkey PRIMARY KEY (turn, number);
ALTER TABLE ONLY kept.journal_events
    ADD CONSTRAINT journal_events_pkey PRIMARY KEY (turn, number);
ALTER TABLE ONLY kept.journal_turns
    ADD CONSTRAINT journal_turns_id_key UNIQUE (id);
ALTER TABLE ONLY kept.journal_turns
    ADD CONSTRAINT journal_turns_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kept.media_pieces
    ADD CONSTRAINT media_pieces_pkey PRIMARY KEY (medium, place);
ALTER TABLE ONLY kept.media
    ADD CONSTRAINT media_pkey PRIMARY KEY (number);
ALTER TABLE ONLY kept.media
    ADD CONSTRAINT media_tenant_sha256_key UNIQUE (tenant, sha256);
ALTER TABLE ONLY kept.media_uses
    ADD CONSTRAINT media_uses_journaled_medium_key UNIQUE (journaled, medium);
ALTER TABLE ONLY kept.media_uses
    ADD CONSTRAINT media_uses_tenant_conversation_turn_medium_key UNIQUE (tenant, conversation, turn, medium);
ALTER TABLE ONLY kept.owners
    ADD CONSTRAINT owners_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY kept.questions
    ADD CONSTRAINT questions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY kept.turn_keys
    ADD CONSTRAINT turn_keys_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_pkey PRIMARY KEY (tenant, conversation, number);
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_tenant_conversation_id_key UNIQUE (tenant, conversation, id);
ALTER TABLE ONLY kept.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (part);
CREATE INDEX conversations_used ON kept.conversations USING btree (tenant, used);
CREATE INDEX counter_waiters_by_id ON kept.counter_waiters USING btree (id);
CREATE INDEX effects_by_end ON kept.effects USING btree (ended_at) WHERE (ended_at <> ''::text);
CREATE INDEX effects_not_ended ON kept.effects USING btree (tenant, state) WHERE (state = ANY (ARRAY['claimed'::text, 'unknown'::text]));
CREATE INDEX effects_of_conversations ON kept.effects USING btree (tenant, conversation) WHERE (conversation IS NOT NULL);
CREATE INDEX effects_pending ON kept.effects USING btree (claimed_at) WHERE (state = 'pending'::text);
CREATE INDEX journal_turns_by_end ON kept.journal_turns USING btree (ended_at) WHERE (ended_at <> ''::text);
CREATE INDEX journal_turns_next ON kept.journal_turns USING btree (priority DESC, number) WHERE ((state = 'accepted'::text) AND is_next);
CREATE INDEX journal_turns_of_conversations ON kept.journal_turns USING btree (tenant, conversation, state, number);
CREATE INDEX journal_turns_owned ON kept.journal_turns USING btree (owner) WHERE (state = 'running'::text);
CREATE INDEX journal_turns_running ON kept.journal_turns USING btree (number) WHERE (state = 'running'::text);
CREATE INDEX media_held ON kept.media USING btree (held_until) WHERE (held_until <> ''::text);
CREATE INDEX media_uses_of_media ON kept.media_uses USING btree (medium);
CREATE INDEX questions_by_expiry ON kept.questions USING btree (expires_at) WHERE (state = 'open'::text);
CREATE INDEX questions_by_number ON kept.questions USING btree (tenant, number);
CREATE INDEX questions_of_conversations ON kept.questions USING btree (tenant, conversation);
CREATE INDEX questions_of_turns ON kept.questions USING btree (turn);
CREATE INDEX questions_open ON kept.questions USING btree (tenant, number) WHERE (state = 'open'::text);
CREATE INDEX questions_remembered ON kept.questions USING btree (tenant, remembered) WHERE (remembered <> ''::text);
CREATE INDEX questions_unsent ON kept.questions USING btree (send_at) WHERE ((state = 'open'::text) AND (send_at IS NOT NULL));
CREATE INDEX questions_used ON kept.questions USING btree (used_by) WHERE (used_by <> ''::text);
CREATE INDEX turn_keys_by_age ON kept.turn_keys USING btree (bound_at);
CREATE TRIGGER journal_turns_begun AFTER INSERT ON kept.journal_turns FOR EACH ROW WHEN ((new.state = 'accepted'::text)) EXECUTE FUNCTION kept.mark_next();
CREATE TRIGGER journal_turns_ended AFTER UPDATE OF ended_at ON kept.journal_turns FOR EACH ROW WHEN (((new.ended_at <> ''::text) AND (new.conversation <> ''::text))) EXECUTE FUNCTION kept.mark_next();
CREATE TRIGGER media_unused AFTER DELETE ON kept.media_uses FOR EACH ROW EXECUTE FUNCTION kept.delete_unused_medium();
ALTER TABLE ONLY kept.journal_entries
    ADD CONSTRAINT journal_entries_turn_fkey FOREIGN KEY (turn) REFERENCES kept.journal_turns(id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.journal_events
    ADD CONSTRAINT journal_events_turn_fkey FOREIGN KEY (turn) REFERENCES kept.journal_turns(id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.media_pieces
    ADD CONSTRAINT media_pieces_medium_fkey FOREIGN KEY (medium) REFERENCES kept.media(number) ON DELETE CASCADE;
ALTER TABLE ONLY kept.media_uses
    ADD CONSTRAINT media_uses_journaled_fkey FOREIGN KEY (journaled) REFERENCES kept.journal_turns(id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.media_uses
    ADD CONSTRAINT media_uses_medium_fkey FOREIGN KEY (medium) REFERENCES kept.media(number);
ALTER TABLE ONLY kept.media_uses
    ADD CONSTRAINT media_uses_tenant_conversation_turn_fkey FOREIGN KEY (tenant, conversation, turn) REFERENCES kept.turns(tenant, conversation, id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_tenant_conversation_fkey FOREIGN KEY (tenant, conversation) REFERENCES kept.conversations(tenant, id) ON DELETE CASCADE;
