SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA kept;
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
    handle text
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
    key text DEFAULT ''::text NOT NULL
);
ALTER TABLE kept.journal_turns ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME kept.journal_turns_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE kept.owners (
    owner text NOT NULL COLLATE pg_catalog."C",
    alive_until timestamp with time zone NOT NULL,
    lease_s double precision NOT NULL,
    renewals bigint NOT NULL
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
    status text DEFAULT 'done'::text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE kept.versions (
    part text NOT NULL,
    version integer NOT NULL
);
INSERT INTO kept.conversations VALUES ('default', 'plain', 'Hello, naïve 世界 🌍.', 'hello, naïve 世界 🌍.', 'And again?', 2, '2026-11-27T10:55:53.346+00:00', '2026-11-27T10:55:53.365+00:00', 2, NULL, 2);
INSERT INTO kept.conversations VALUES ('default', 'tools', 'Weather and a drawing, please.', 'weather and a drawing, please.', 'Order a lamp.', 5, '2026-11-27T10:55:53.386+00:00', '2026-11-27T10:55:53.462+00:00', 7, NULL, 5);
INSERT INTO kept.conversations VALUES ('default', 'keyed', 'Order once, please.', 'order once, please.', 'Order once, please.', 1, '2026-11-27T10:55:53.484+00:00', '2026-11-27T10:55:53.484+00:00', 8, NULL, 1);
INSERT INTO kept.conversations VALUES ('acme', 'plain', 'Elsewhere.', 'elsewhere.', 'Elsewhere.', 1, '2026-11-27T10:55:53.494+00:00', '2026-11-27T10:55:53.494+00:00', 9, NULL, 1);
INSERT INTO kept.conversations VALUES ('default', 'failing', 'This fails.', 'this fails.', 'This fails.', 1, '2026-11-27T10:55:53.507+00:00', '2026-11-27T10:55:53.507+00:00', 10, NULL, 1);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (1, '3a87fdee1be5b2920c78c746e57adf5c8e46694fca14e25a9ad5fc389d75a427', 'default', 'tools', 'd22f5fd34dd669ec2f8693271e406096', '1.1', 'draw', '22daba19b7cc8316635a68734e8bfe79239d3c9807813e332d6a66adcacb2469', '{"subject": "a pixel"}', 'done', '9eb7af35fc9016ed', 1, '{"success": true, "tool_name": "draw", "result": {"subject": "a pixel"}, "media": [{"type": "media", "kind": "image", "mime_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "name": "drawing.png"}]}', '2026-11-27T10:55:53.376+00:00', '2026-11-27T10:55:53.378+00:00', '', '', 'abfc05773de90c79', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (2, 'ac042cc332647260f381cfa847a088304c5b957adc0baa92ee0878296fbb97ae', 'default', 'tools', '824be86784c9238ef72911c6d54973af', '1.0', 'pay', '1fbcdee1ed3766713bdf75f2a44edd3a0e32251a0e7f6571e01aa4f7abc80ada', '{"amount": 5}', 'done', '4f2cee67966a48a5', 1, '{"success": true, "tool_name": "pay", "result": "paid 5"}', '2026-11-27T10:55:53.399+00:00', '2026-11-27T10:55:53.400+00:00', '', '', '55486ccb5df125a4', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (3, '23e4dbf400e82ce6dd987014293daeea453cf370384255facdfaa3677d5267b7', 'default', 'tools', '9c14c45bb3f26e000b3a7ad9facf8433', '1.0', 'pay_or_lose', '9d78748c576e6ed7836f4b6506554a1c45517d74b3cfa1d11130c31b0eedb184', '{"amount": 7}', 'unknown', '4b56602769168672', 1, NULL, '2026-11-27T10:55:53.414+00:00', '2026-11-27T10:55:53.414+00:00', '', 'the connection was lost', '98630fa20f91226a', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (4, '0fab3335ea97e0a590bc1738e4c9ad9ce5110c87aee6b844a614e497d2cd4fcf', 'default', 'tools', '4585f9bb350f447ae5813d7426ca788e', '1.0', 'refuse', '2afc7998e50ef813dd62dc7fff32768abfe601195cb16407a65ddec4a92c1825', '{"amount": 9}', 'failed', '73f058aeddef2da1', 1, '{"success": false, "tool_name": "refuse", "error": "no such account"}', '2026-11-27T10:55:53.431+00:00', '2026-11-27T10:55:53.432+00:00', '', '', '9e73d9ce1fab0c3a', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (5, 'eaea7b84488b35a2ccd43785a4f62a97f9a0a2b28efc2faf0ac2696ad8b393c5', 'default', 'tools', '03b60d3151f0d1c51f6478f1b021b543', '1.0', 'order', 'aca08fa316a208c7c3e6e152ce30f7a75eb1907ce23aa432233640f9c31e75f0', '{"item": "lamp"}', 'done', 'fc02925ac84e7bb8', 1, '{"success": true, "tool_name": "order", "result": {"item": "lamp", "ordered": true}}', '2026-11-27T10:55:53.459+00:00', '2026-11-27T10:55:53.460+00:00', '', '', 'c73aa294a7d2b260', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (6, '57ab3153cfa11b93e7d60a04b70b1ff6f3ba1a374cc55ac1fab170bcc6499ced', 'default', 'keyed', '68e45590a4c8028e0af18aff90ef96ad', '1.0', 'order', '47722f664275431c87728d8b50e28d24da6aba657ed8287e729a9b82019cd86f', '{"item": "chair"}', 'done', '919b146780957543', 1, '{"success": true, "tool_name": "order", "result": {"item": "chair", "ordered": true}}', '2026-11-27T10:55:53.481+00:00', '2026-11-27T10:55:53.482+00:00', '', '', '261f10d8cd73bca9', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (7, '6a1a8eaefd386fd31b01185f30defb2b2589bf5b69c6f15b1ed27a33906a9c45', 'default', NULL, '', 'key:by-hand', 'pay', '4b7c7c736f188ac7ff15acc0a62aabc8751a0fef2b3e5e5b929eb79bce43e8b0', '{"amount": 3}', 'done', '2ccb4e5972eca761', 1, '{"success": true, "tool_name": "pay", "result": "paid 3"}', '2026-11-27T10:55:53.499+00:00', '2026-11-27T10:55:53.500+00:00', '', '', '86219835c069f2eb', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (8, '03edd44be99fa24723b300874a6caa8f0c99f25ebc81985faa03f4e57ce4dead', 'default', 'interrupted', '68da2eb9daaa357cc4dd77de49638153', '1.0', 'pay', 'e5ccdd2b0a43bc7e1030b98dd0bbe9809f05e2c21e182e44150323a5d38945fc', '{"amount": 11}', 'claimed', '15852e24c79d18ce', 1, NULL, '2026-11-27T10:55:53.742+00:00', '', '', '', 'a0f9de811bb51b76', NULL);
INSERT INTO kept.effects OVERRIDING SYSTEM VALUE VALUES (9, '9769f051071f7b85ea50dc2f26941dd0102158cb1b3e8b88a15ae25806bf80f0', 'default', 'interrupted with key', 'd59479bdfd213d16127806a4c062768e', '1.0', 'order', '5a3230038c56fcedcb1afd5330001e5210d54414c792069fb34e7aad3ff308bc', '{"item": "table"}', 'claimed', 'fe16282786ca26f2', 1, NULL, '2026-11-27T10:55:53.915+00:00', '', '', '', '0c0ab5bddf3d8857', NULL);
INSERT INTO kept.journal_entries VALUES ('c4236b76f117cbb11db07ae3cf559441', 1, 'started', '{"request":{"user_message":"Hello, na\u00efve \u4e16\u754c \ud83c\udf0d.","conversation":"plain"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.337+00:00');
INSERT INTO kept.journal_entries VALUES ('c4236b76f117cbb11db07ae3cf559441', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.338+00:00');
INSERT INTO kept.journal_entries VALUES ('c4236b76f117cbb11db07ae3cf559441', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.338+00:00');
INSERT INTO kept.journal_entries VALUES ('c4236b76f117cbb11db07ae3cf559441', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Hello. \"Quotes\" and\ttabs."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.08855099986249115,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.345+00:00');
INSERT INTO kept.journal_entries VALUES ('d513d7af6bb3b28fc7881afa5257a07b', 1, 'started', '{"request":{"user_message":"And again?","conversation":"plain"},"after":"c4236b76f117cbb11db07ae3cf559441","config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.363+00:00');
INSERT INTO kept.journal_entries VALUES ('d513d7af6bb3b28fc7881afa5257a07b', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.363+00:00');
INSERT INTO kept.journal_entries VALUES ('d513d7af6bb3b28fc7881afa5257a07b', 3, 'request', '{"llm":"bot","model":"m","messages":3}', '2026-11-27T10:55:53.363+00:00');
INSERT INTO kept.journal_entries VALUES ('d513d7af6bb3b28fc7881afa5257a07b', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Yes, again."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.03260799894633237,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.365+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 1, 'started', '{"request":{"user_message":"Weather and a drawing, please.","conversation":"tools"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.372+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.372+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.372+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"weather","arguments":{"city":"Z\u00fcrich"},"id":"call_9p521Y9kOhB18p_XD2EpWw"},{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_Qk6VNIyh-KorReIMB_PZFw"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.027179999960935675,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.374+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"weather","params":{"city":"Z\u00fcrich"},"result":{"success":true,"tool_name":"weather","result":{"city":"Z\u00fcrich","celsius":21.5}},"iteration":1,"call_id":"call_9p521Y9kOhB18p_XD2EpWw"},"wrote":false}', '2026-11-27T10:55:53.376+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 6, 'tool', '{"iteration":1,"index":1,"record":{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":3,"result":{"subject":"a pixel"},"media":[{"type":"media","kind":"image","mime_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==","name":"drawing.png"}]},"iteration":1,"call_id":"call_Qk6VNIyh-KorReIMB_PZFw"},"wrote":true}', '2026-11-27T10:55:53.378+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 7, 'request', '{"llm":"bot","model":"m","messages":4}', '2026-11-27T10:55:53.378+00:00');
INSERT INTO kept.journal_entries VALUES ('d22f5fd34dd669ec2f8693271e406096', 8, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"It is 21.5 \u00b0C; here is your drawing."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.02790100006677676,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.385+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 1, 'started', '{"request":{"user_message":"Pay 5.","conversation":"tools"},"after":"d22f5fd34dd669ec2f8693271e406096","config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.395+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.395+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 3, 'request', '{"llm":"bot","model":"m","messages":6}', '2026-11-27T10:55:53.395+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_1h7bDrULeG5dR8m-Ay6mFQ"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.027490999855217524,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.397+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":2,"result":"paid 5"},"iteration":1,"call_id":"call_1h7bDrULeG5dR8m-Ay6mFQ"},"wrote":true}', '2026-11-27T10:55:53.400+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 6, 'request', '{"llm":"bot","model":"m","messages":8}', '2026-11-27T10:55:53.400+00:00');
INSERT INTO kept.journal_entries VALUES ('824be86784c9238ef72911c6d54973af', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Paid."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.02476699955877848,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.403+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 1, 'started', '{"request":{"user_message":"Pay and lose.","conversation":"tools"},"after":"824be86784c9238ef72911c6d54973af","config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.410+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.410+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 3, 'request', '{"llm":"bot","model":"m","messages":10}', '2026-11-27T10:55:53.410+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"pay_or_lose","arguments":{"amount":7},"id":"call_gfMBkNgzcxneSCLETbsecA"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.02617899917822797,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.412+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"pay_or_lose","params":{"amount":7},"result":{"success":false,"tool_name":"pay_or_lose","execution_time_ms":2,"error":"the connection was lost","hint":"it is unknown whether ''pay_or_lose'' took effect. Do not call it again for the same purpose; tell the user, who can check","notes":["the effect is unknown: flexchat effects list --unknown"]},"iteration":1,"call_id":"call_gfMBkNgzcxneSCLETbsecA","facts":{"effect":{"key":"23e4dbf400e82ce6dd987014293daeea453cf370384255facdfaa3677d5267b7","state":"unknown"}}},"wrote":true}', '2026-11-27T10:55:53.415+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 6, 'request', '{"llm":"bot","model":"m","messages":12}', '2026-11-27T10:55:53.415+00:00');
INSERT INTO kept.journal_entries VALUES ('9c14c45bb3f26e000b3a7ad9facf8433', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"I do not know whether it was paid."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.039477999962400645,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.418+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 1, 'started', '{"request":{"user_message":"Refuse.","conversation":"tools"},"after":"9c14c45bb3f26e000b3a7ad9facf8433","config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.428+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.428+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 3, 'request', '{"llm":"bot","model":"m","messages":14}', '2026-11-27T10:55:53.428+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"refuse","arguments":{"amount":9},"id":"call_iKuAgHu1iNS1swMpRAYz2g"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.0198500001715729,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.430+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"refuse","params":{"amount":9},"result":{"success":false,"tool_name":"refuse","execution_time_ms":2,"error":"no such account"},"iteration":1,"call_id":"call_iKuAgHu1iNS1swMpRAYz2g"},"wrote":true}', '2026-11-27T10:55:53.433+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 6, 'request', '{"llm":"bot","model":"m","messages":16}', '2026-11-27T10:55:53.433+00:00');
INSERT INTO kept.journal_entries VALUES ('4585f9bb350f447ae5813d7426ca788e', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"It was refused."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.017005999325192533,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.435+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 1, 'started', '{"request":{"user_message":"Order a lamp.","conversation":"tools"},"after":"4585f9bb350f447ae5813d7426ca788e","config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.455+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.455+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 3, 'request', '{"llm":"bot","model":"m","messages":18}', '2026-11-27T10:55:53.456+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"lamp"},"id":"call_zY77HFH7RIszY6IEs7p0_g"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.02049000067927409,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.458+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"order","params":{"item":"lamp"},"result":{"success":true,"tool_name":"order","execution_time_ms":2,"result":{"item":"lamp","ordered":true}},"iteration":1,"call_id":"call_zY77HFH7RIszY6IEs7p0_g"},"wrote":true}', '2026-11-27T10:55:53.460+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 6, 'request', '{"llm":"bot","model":"m","messages":20}', '2026-11-27T10:55:53.460+00:00');
INSERT INTO kept.journal_entries VALUES ('03b60d3151f0d1c51f6478f1b021b543', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Ordered."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.0186079996638,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.462+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 1, 'started', '{"request":{"user_message":"Order once, please.","conversation":"keyed","key":"request-1"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.477+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.477+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.477+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"chair"},"id":"call_NPQInxxwlybBKaa4BbxKWQ"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.12068900105077773,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.479+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 5, 'tool', '{"iteration":1,"index":0,"record":{"tool":"order","params":{"item":"chair"},"result":{"success":true,"tool_name":"order","execution_time_ms":1,"result":{"item":"chair","ordered":true}},"iteration":1,"call_id":"call_NPQInxxwlybBKaa4BbxKWQ"},"wrote":true}', '2026-11-27T10:55:53.482+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 6, 'request', '{"llm":"bot","model":"m","messages":3}', '2026-11-27T10:55:53.482+00:00');
INSERT INTO kept.journal_entries VALUES ('68e45590a4c8028e0af18aff90ef96ad', 7, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"One chair ordered."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.07904699850769248,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.484+00:00');
INSERT INTO kept.journal_entries VALUES ('9a97eff82ee93b5fe2b732dd5a05121e', 1, 'started', '{"request":{"user_message":"Elsewhere.","conversation":"plain","tenant":"acme"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.492+00:00');
INSERT INTO kept.journal_entries VALUES ('9a97eff82ee93b5fe2b732dd5a05121e', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.492+00:00');
INSERT INTO kept.journal_entries VALUES ('9a97eff82ee93b5fe2b732dd5a05121e', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.492+00:00');
INSERT INTO kept.journal_entries VALUES ('9a97eff82ee93b5fe2b732dd5a05121e', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Another tenant''s answer."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.017334999938611872,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.494+00:00');
INSERT INTO kept.journal_entries VALUES ('f070a5e9add360558d3c0985d7f8058f', 1, 'started', '{"request":{"user_message":"This fails.","conversation":"failing"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.505+00:00');
INSERT INTO kept.journal_entries VALUES ('f070a5e9add360558d3c0985d7f8058f', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.505+00:00');
INSERT INTO kept.journal_entries VALUES ('f070a5e9add360558d3c0985d7f8058f', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.505+00:00');
INSERT INTO kept.journal_entries VALUES ('68da2eb9daaa357cc4dd77de49638153', 1, 'started', '{"request":{"user_message":"Pay 11.","conversation":"interrupted"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.725+00:00');
INSERT INTO kept.journal_entries VALUES ('68da2eb9daaa357cc4dd77de49638153', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.725+00:00');
INSERT INTO kept.journal_entries VALUES ('68da2eb9daaa357cc4dd77de49638153', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.725+00:00');
INSERT INTO kept.journal_entries VALUES ('68da2eb9daaa357cc4dd77de49638153', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":11},"id":"call_oNPBIcI2xk2tp5Thvy3h0w"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.10426499829918612,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.735+00:00');
INSERT INTO kept.journal_entries VALUES ('d59479bdfd213d16127806a4c062768e', 1, 'started', '{"request":{"user_message":"Order a table.","conversation":"interrupted with key","key":"request-2"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:53.905+00:00');
INSERT INTO kept.journal_entries VALUES ('d59479bdfd213d16127806a4c062768e', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:53.905+00:00');
INSERT INTO kept.journal_entries VALUES ('d59479bdfd213d16127806a4c062768e', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:53.906+00:00');
INSERT INTO kept.journal_entries VALUES ('d59479bdfd213d16127806a4c062768e', 4, 'answer', '{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"table"},"id":"call_VRB-WmCYIi-Y3Iy_aJZZVg"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.20425300135684665,"price":null,"asked_for_form":false,"warnings":[]}', '2026-11-27T10:55:53.912+00:00');
INSERT INTO kept.journal_entries VALUES ('38f89ef93d43640050789575e77daa0a', 1, 'started', '{"request":{"user_message":"Still running?","conversation":"running"},"after":null,"config":"7518b0365925525d","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}', '2026-11-27T10:55:54.099+00:00');
INSERT INTO kept.journal_entries VALUES ('38f89ef93d43640050789575e77daa0a', 2, 'rule', '{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse"]}', '2026-11-27T10:55:54.099+00:00');
INSERT INTO kept.journal_entries VALUES ('38f89ef93d43640050789575e77daa0a', 3, 'request', '{"llm":"bot","model":"m","messages":1}', '2026-11-27T10:55:54.099+00:00');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (1, 'c4236b76f117cbb11db07ae3cf559441', 'default', 'plain', 'done', 'Hello, naïve 世界 🌍.', '7642caccb7fa600199617c9241f1155b', 1, '2026-11-27T10:55:53.339+00:00', '2026-11-27T10:55:53.346+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (2, 'd513d7af6bb3b28fc7881afa5257a07b', 'default', 'plain', 'done', 'And again?', 'b5dcdcd7b7149cc5a29cb85ff740df8a', 1, '2026-11-27T10:55:53.363+00:00', '2026-11-27T10:55:53.365+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (3, 'd22f5fd34dd669ec2f8693271e406096', 'default', 'tools', 'done', 'Weather and a drawing, please.', '5d3a3a4d7d86b8bf1556e3a5cdf11a72', 1, '2026-11-27T10:55:53.373+00:00', '2026-11-27T10:55:53.386+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (4, '824be86784c9238ef72911c6d54973af', 'default', 'tools', 'done', 'Pay 5.', '3c0fc3165ccadcd4b1df6c64e85491ff', 1, '2026-11-27T10:55:53.396+00:00', '2026-11-27T10:55:53.403+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (5, '9c14c45bb3f26e000b3a7ad9facf8433', 'default', 'tools', 'done', 'Pay and lose.', '9105d9d33a0f155c628b6d4ea3d9badd', 1, '2026-11-27T10:55:53.411+00:00', '2026-11-27T10:55:53.418+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (6, '4585f9bb350f447ae5813d7426ca788e', 'default', 'tools', 'done', 'Refuse.', 'c996d296af7d5e0b31ff7fb6b06203c6', 1, '2026-11-27T10:55:53.429+00:00', '2026-11-27T10:55:53.435+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (7, '03b60d3151f0d1c51f6478f1b021b543', 'default', 'tools', 'done', 'Order a lamp.', '24376ce73ec8c2eafbfa24ede785f5be', 1, '2026-11-27T10:55:53.456+00:00', '2026-11-27T10:55:53.462+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (8, '68e45590a4c8028e0af18aff90ef96ad', 'default', 'keyed', 'done', 'Order once, please.', '9ad82128d07b8d2f0a5a5f90fa8b523e', 1, '2026-11-27T10:55:53.478+00:00', '2026-11-27T10:55:53.484+00:00', '', '', 'request-1');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (9, '9a97eff82ee93b5fe2b732dd5a05121e', 'acme', 'plain', 'done', 'Elsewhere.', '93e0f0d513fa500e3c434f4e59999ab7', 1, '2026-11-27T10:55:53.492+00:00', '2026-11-27T10:55:53.494+00:00', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (10, 'f070a5e9add360558d3c0985d7f8058f', 'default', 'failing', 'failed', 'This fails.', 'ad73ddbd519fb831baacd37f39d6f20d', 1, '2026-11-27T10:55:53.506+00:00', '2026-11-27T10:55:53.507+00:00', 'the script has no reply to request 1: it has 0. The last message was user: ''This fails.''. Add a reply, or set repeat', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (11, '68da2eb9daaa357cc4dd77de49638153', 'default', 'interrupted', 'running', 'Pay 11.', 'c8b61e37fc920025a6df3427b68a60f0', 1, '2026-11-27T10:55:53.729+00:00', '', '', '', '');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (12, 'd59479bdfd213d16127806a4c062768e', 'default', 'interrupted with key', 'running', 'Order a table.', '8ea015f5fbb33b2168e0338aaaf836bc', 1, '2026-11-27T10:55:53.907+00:00', '', '', '', 'request-2');
INSERT INTO kept.journal_turns OVERRIDING SYSTEM VALUE VALUES (13, '38f89ef93d43640050789575e77daa0a', 'default', 'running', 'running', 'Still running?', 'cffb60ce0e95c2c717a705905185e8ad', 1, '2026-11-27T10:55:54.103+00:00', '', '', '', '');
INSERT INTO kept.turn_keys VALUES ('default', 'request-1', '68e45590a4c8028e0af18aff90ef96ad', 'f1f7cf965b41c9f112042c57ff13f60d29ddf1f713338daa91bd1825e90c050e', true, '2026-11-27T10:55:53.474+00:00');
INSERT INTO kept.turn_keys VALUES ('default', 'request-2', 'd59479bdfd213d16127806a4c062768e', '7b654d096cf8910d8b535793b765c35596fbbafb0b6ff31267aca286e481636a', true, '2026-11-27T10:55:53.892+00:00');
INSERT INTO kept.turns VALUES ('default', 'plain', 1, 'c4236b76f117cbb11db07ae3cf559441', 'hello, naïve 世界 🌍.
hello. "quotes" and	tabs.', '{"id":"c4236b76f117cbb11db07ae3cf559441","messages":[{"role":"user","content":"Hello, na\u00efve \u4e16\u754c \ud83c\udf0d."},{"role":"assistant","parts":[{"type":"text","text":"Hello. \"Quotes\" and\ttabs."}]}],"topic":"Hello, na\u00efve \u4e16\u754c \ud83c\udf0d.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.346+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Hello, na\u00efve \u4e16\u754c \ud83c\udf0d.","status":"new_topic"},"elapsed_ms":0.1161720010713907,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.04580799941322766,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.008573000741307624,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.018726999769569375},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.037395999243017286},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":0},"elapsed_ms":7.999080000445247}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.08855099986249115,"finish_reason":"stop"}],"tool_calls":[],"finish_reason":"stop","elapsed_ms":8.273526998891612}', 'done');
INSERT INTO kept.turns VALUES ('default', 'plain', 2, 'd513d7af6bb3b28fc7881afa5257a07b', 'and again?
yes, again.', '{"id":"d513d7af6bb3b28fc7881afa5257a07b","messages":[{"role":"user","content":"And again?"},{"role":"assistant","parts":[{"type":"text","text":"Yes, again."}]}],"topic":"And again?","llm":"bot","model":"m","at":"2026-11-27T10:55:53.365+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"And again?","status":"new_topic"},"elapsed_ms":0.051376000556047074,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.012918999345856719,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.005579000571742654,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.012177999451523647},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.015392999557661824},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":0},"elapsed_ms":2.1204460008448223}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.03260799894633237,"finish_reason":"stop"}],"tool_calls":[],"finish_reason":"stop","elapsed_ms":2.2445610011345707}', 'done');
INSERT INTO kept.turns VALUES ('default', 'tools', 1, 'd22f5fd34dd669ec2f8693271e406096', 'weather and a drawing, please.
it is 21.5 °c; here is your drawing.', '{"id":"d22f5fd34dd669ec2f8693271e406096","messages":[{"role":"user","content":"Weather and a drawing, please."},{"role":"assistant","parts":[{"type":"tool_call","name":"weather","arguments":{"city":"Z\u00fcrich"},"id":"call_9p521Y9kOhB18p_XD2EpWw"},{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_Qk6VNIyh-KorReIMB_PZFw"}]},{"role":"tool","tool_call_id":"call_9p521Y9kOhB18p_XD2EpWw","name":"weather","content":"{\"success\": true, \"result\": {\"city\": \"Z\u00fcrich\", \"celsius\": 21.5}, \"tool_name\": \"weather\", \"execution_time_ms\": 0}"},{"role":"tool","tool_call_id":"call_Qk6VNIyh-KorReIMB_PZFw","name":"draw","content":"{\"success\": true, \"result\": {\"subject\": \"a pixel\"}, \"tool_name\": \"draw\", \"execution_time_ms\": 3, \"media\": [{\"kind\": \"image\", \"mime_type\": \"image/png\", \"bytes\": 70, \"name\": \"drawing.png\"}]}","media":[{"type":"media","kind":"image","mime_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==","name":"drawing.png"}]},{"role":"assistant","parts":[{"type":"text","text":"It is 21.5 \u00b0C; here is your drawing."}]}],"topic":"Weather and a drawing, please.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.386+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Weather and a drawing, please.","status":"new_topic"},"elapsed_ms":0.03824600025836844,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.013560000297729857,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.0045769993448629975,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.010886000382015482},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.014662000467069447},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":2},"elapsed_ms":13.978422999571194}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.027179999960935675,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.02790100006677676,"finish_reason":"stop"}],"tool_calls":[{"tool":"weather","params":{"city":"Z\u00fcrich"},"result":{"success":true,"tool_name":"weather","result":{"city":"Z\u00fcrich","celsius":21.5}},"iteration":1,"call_id":"call_9p521Y9kOhB18p_XD2EpWw"},{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":3,"result":{"subject":"a pixel"},"media":"as in the message"},"iteration":1,"call_id":"call_Qk6VNIyh-KorReIMB_PZFw"}],"finish_reason":"stop","elapsed_ms":14.095406000706134}', 'done');
INSERT INTO kept.turns VALUES ('default', 'tools', 2, '824be86784c9238ef72911c6d54973af', 'pay 5.
paid.', '{"id":"824be86784c9238ef72911c6d54973af","messages":[{"role":"user","content":"Pay 5."},{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_1h7bDrULeG5dR8m-Ay6mFQ"}]},{"role":"tool","tool_call_id":"call_1h7bDrULeG5dR8m-Ay6mFQ","name":"pay","content":"{\"success\": true, \"result\": \"paid 5\", \"tool_name\": \"pay\", \"execution_time_ms\": 2}"},{"role":"assistant","parts":[{"type":"text","text":"Paid."}]}],"topic":"Pay 5.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.403+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Pay 5.","status":"new_topic"},"elapsed_ms":0.040389999412582256,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.010105000910698436,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.004315999831305817,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.01657499888096936},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.01580299976922106},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":7.682661000217195}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.027490999855217524,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.02476699955877848,"finish_reason":"stop"}],"tool_calls":[{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":2,"result":"paid 5"},"iteration":1,"call_id":"call_1h7bDrULeG5dR8m-Ay6mFQ"}],"finish_reason":"stop","elapsed_ms":7.791521999024553}', 'done');
INSERT INTO kept.turns VALUES ('default', 'tools', 3, '9c14c45bb3f26e000b3a7ad9facf8433', 'pay and lose.
i do not know whether it was paid.', '{"id":"9c14c45bb3f26e000b3a7ad9facf8433","messages":[{"role":"user","content":"Pay and lose."},{"role":"assistant","parts":[{"type":"tool_call","name":"pay_or_lose","arguments":{"amount":7},"id":"call_gfMBkNgzcxneSCLETbsecA"}]},{"role":"tool","tool_call_id":"call_gfMBkNgzcxneSCLETbsecA","name":"pay_or_lose","content":"{\"success\": false, \"error\": \"the connection was lost\", \"hint\": \"it is unknown whether ''pay_or_lose'' took effect. Do not call it again for the same purpose; tell the user, who can check\", \"tool_name\": \"pay_or_lose\", \"execution_time_ms\": 2}","is_error":true},{"role":"assistant","parts":[{"type":"text","text":"I do not know whether it was paid."}]}],"topic":"Pay and lose.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.418+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Pay and lose.","status":"new_topic"},"elapsed_ms":0.037015000998508185,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.011697000445565209,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.004456998794921674,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.010875999578274786},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.014171000657370314},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":7.887224001024151}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.02617899917822797,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.039477999962400645,"finish_reason":"stop"}],"tool_calls":[{"tool":"pay_or_lose","params":{"amount":7},"result":{"success":false,"tool_name":"pay_or_lose","execution_time_ms":2,"error":"the connection was lost","hint":"it is unknown whether ''pay_or_lose'' took effect. Do not call it again for the same purpose; tell the user, who can check","notes":["the effect is unknown: flexchat effects list --unknown"]},"iteration":1,"call_id":"call_gfMBkNgzcxneSCLETbsecA","facts":{"effect":{"key":"23e4dbf400e82ce6dd987014293daeea453cf370384255facdfaa3677d5267b7","state":"unknown"}}}],"finish_reason":"stop","elapsed_ms":7.988043998921057}', 'done');
INSERT INTO kept.turns VALUES ('default', 'tools', 4, '4585f9bb350f447ae5813d7426ca788e', 'refuse.
it was refused.', '{"id":"4585f9bb350f447ae5813d7426ca788e","messages":[{"role":"user","content":"Refuse."},{"role":"assistant","parts":[{"type":"tool_call","name":"refuse","arguments":{"amount":9},"id":"call_iKuAgHu1iNS1swMpRAYz2g"}]},{"role":"tool","tool_call_id":"call_iKuAgHu1iNS1swMpRAYz2g","name":"refuse","content":"{\"success\": false, \"error\": \"no such account\", \"tool_name\": \"refuse\", \"execution_time_ms\": 2}","is_error":true},{"role":"assistant","parts":[{"type":"text","text":"It was refused."}]}],"topic":"Refuse.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.435+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Refuse.","status":"new_topic"},"elapsed_ms":0.03982899943366647,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.007991999154910445,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.004126000931137241,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.011467000149423257},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.015933999748085625},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":6.713511998896138}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.0198500001715729,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.017005999325192533,"finish_reason":"stop"}],"tool_calls":[{"tool":"refuse","params":{"amount":9},"result":{"success":false,"tool_name":"refuse","execution_time_ms":2,"error":"no such account"},"iteration":1,"call_id":"call_iKuAgHu1iNS1swMpRAYz2g"}],"finish_reason":"stop","elapsed_ms":6.814743001086754}', 'done');
INSERT INTO kept.turns VALUES ('default', 'tools', 5, '03b60d3151f0d1c51f6478f1b021b543', 'order a lamp.
ordered.', '{"id":"03b60d3151f0d1c51f6478f1b021b543","messages":[{"role":"user","content":"Order a lamp."},{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"lamp"},"id":"call_zY77HFH7RIszY6IEs7p0_g"}]},{"role":"tool","tool_call_id":"call_zY77HFH7RIszY6IEs7p0_g","name":"order","content":"{\"success\": true, \"result\": {\"item\": \"lamp\", \"ordered\": true}, \"tool_name\": \"order\", \"execution_time_ms\": 2}"},{"role":"assistant","parts":[{"type":"text","text":"Ordered."}]}],"topic":"Order a lamp.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.462+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Order a lamp.","status":"new_topic"},"elapsed_ms":0.047289999201893806,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.009764000424183905,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.0049079990276368335,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.01262800105905626},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.017426000340492465},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":7.042731000183267}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.02049000067927409,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.0186079996638,"finish_reason":"stop"}],"tool_calls":[{"tool":"order","params":{"item":"lamp"},"result":{"success":true,"tool_name":"order","execution_time_ms":2,"result":{"item":"lamp","ordered":true}},"iteration":1,"call_id":"call_zY77HFH7RIszY6IEs7p0_g"}],"finish_reason":"stop","elapsed_ms":7.159873999626143}', 'done');
INSERT INTO kept.turns VALUES ('default', 'keyed', 1, '68e45590a4c8028e0af18aff90ef96ad', 'order once, please.
one chair ordered.', '{"id":"68e45590a4c8028e0af18aff90ef96ad","messages":[{"role":"user","content":"Order once, please."},{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"chair"},"id":"call_NPQInxxwlybBKaa4BbxKWQ"}]},{"role":"tool","tool_call_id":"call_NPQInxxwlybBKaa4BbxKWQ","name":"order","content":"{\"success\": true, \"result\": {\"item\": \"chair\", \"ordered\": true}, \"tool_name\": \"order\", \"execution_time_ms\": 1}"},{"role":"assistant","parts":[{"type":"text","text":"One chair ordered."}]}],"topic":"Order once, please.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.484+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Order once, please.","status":"new_topic"},"elapsed_ms":0.1128370004153112,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.03564300095604267,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.009093999324250035,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.026899999284069054},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.0727280003047781},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":6.707243001073948}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.12068900105077773,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.07904699850769248,"finish_reason":"stop"}],"tool_calls":[{"tool":"order","params":{"item":"chair"},"result":{"success":true,"tool_name":"order","execution_time_ms":1,"result":{"item":"chair","ordered":true}},"iteration":1,"call_id":"call_NPQInxxwlybBKaa4BbxKWQ"}],"finish_reason":"stop","elapsed_ms":6.99651300055848}', 'done');
INSERT INTO kept.turns VALUES ('acme', 'plain', 1, '9a97eff82ee93b5fe2b732dd5a05121e', 'elsewhere.
another tenant''s answer.', '{"id":"9a97eff82ee93b5fe2b732dd5a05121e","messages":[{"role":"user","content":"Elsewhere."},{"role":"assistant","parts":[{"type":"text","text":"Another tenant''s answer."}]}],"topic":"Elsewhere.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.494+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Elsewhere.","status":"new_topic"},"elapsed_ms":0.03150699922116473,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.01059600072039757,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.0036250003176974133,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.007872000423958525},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.01266799881705083},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":0},"elapsed_ms":1.8707670005824184}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.017334999938611872,"finish_reason":"stop"}],"tool_calls":[],"finish_reason":"stop","elapsed_ms":1.9528880002326332}', 'done');
INSERT INTO kept.turns VALUES ('default', 'failing', 1, 'f070a5e9add360558d3c0985d7f8058f', 'this fails.', '{"id":"f070a5e9add360558d3c0985d7f8058f","messages":[{"role":"user","content":"This fails."}],"topic":"This fails.","llm":"bot","model":"m","at":"2026-11-27T10:55:53.507+00:00","status":"failed","error":"the script has no reply to request 1: it has 0. The last message was user: ''This fails.''. Add a reply, or set repeat","replay":false,"rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"This fails.","status":"new_topic"},"elapsed_ms":0.03519299934851006,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.016554000467294827,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.005198000508244149,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.010785999620566145},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.01529300061520189}],"tool_calls":[],"elapsed_ms":2.0660259997384856}', 'failed');
INSERT INTO kept.versions VALUES ('conversations', 7);
SELECT pg_catalog.setval('kept.conversation_uses', 10, true);
SELECT pg_catalog.setval('kept.effects_number_seq', 9, true);
SELECT pg_catalog.setval('kept.journal_turns_number_seq', 13, true);
ALTER TABLE ONLY kept.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (tenant, id);
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
ALTER TABLE ONLY kept.owners
    ADD CONSTRAINT owners_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY kept.turn_keys
    ADD CONSTRAINT turn_keys_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_pkey PRIMARY KEY (tenant, conversation, number);
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_tenant_conversation_id_key UNIQUE (tenant, conversation, id);
ALTER TABLE ONLY kept.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (part);
CREATE INDEX conversations_used ON kept.conversations USING btree (tenant, used);
CREATE INDEX effects_by_end ON kept.effects USING btree (ended_at) WHERE (ended_at <> ''::text);
CREATE INDEX effects_not_ended ON kept.effects USING btree (tenant, state) WHERE (state = ANY (ARRAY['claimed'::text, 'unknown'::text]));
CREATE INDEX effects_of_conversations ON kept.effects USING btree (tenant, conversation) WHERE (conversation IS NOT NULL);
CREATE INDEX journal_turns_by_end ON kept.journal_turns USING btree (ended_at) WHERE (ended_at <> ''::text);
CREATE INDEX journal_turns_of_conversations ON kept.journal_turns USING btree (tenant, conversation);
CREATE INDEX journal_turns_running ON kept.journal_turns USING btree (number) WHERE (state = 'running'::text);
CREATE INDEX turn_keys_by_age ON kept.turn_keys USING btree (bound_at);
ALTER TABLE ONLY kept.journal_entries
    ADD CONSTRAINT journal_entries_turn_fkey FOREIGN KEY (turn) REFERENCES kept.journal_turns(id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.journal_events
    ADD CONSTRAINT journal_events_turn_fkey FOREIGN KEY (turn) REFERENCES kept.journal_turns(id) ON DELETE CASCADE;
ALTER TABLE ONLY kept.turns
    ADD CONSTRAINT turns_tenant_conversation_fkey FOREIGN KEY (tenant, conversation) REFERENCES kept.conversations(tenant, id) ON DELETE CASCADE;
