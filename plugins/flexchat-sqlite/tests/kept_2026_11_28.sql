PRAGMA application_id = 1718384739;
PRAGMA user_version = 15;
BEGIN TRANSACTION;
CREATE TABLE conversations (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    topic TEXT NOT NULL,
    turns INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    used_at TEXT NOT NULL,
    last_turn INTEGER NOT NULL, cost INTEGER, unpriced INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
INSERT INTO "conversations" VALUES('default','drawn','Draw this.','Draw this.',1,'2026-11-28T12:48:18.375+00:00','2026-11-28T12:48:18.375+00:00',2,NULL,1);
INSERT INTO "conversations" VALUES('default','plain','Hello','Pay 5.',2,'2026-11-28T12:48:18.296+00:00','2026-11-28T12:48:18.410+00:00',3,NULL,2);
CREATE TABLE counter_clock (boot TEXT NOT NULL, booted INTEGER NOT NULL, jumped INTEGER NOT NULL);
INSERT INTO "counter_clock" VALUES('925940b2-9f1a-4fef-aaf1-91b48becbad3
',1795852972694898,0);
CREATE TABLE counter_reservations (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, labels TEXT NOT NULL, worst TEXT NOT NULL, held TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "counter_reservations" VALUES('c','killed','{"tenant": "default", "tool": "pay"}','{"trillionths": 100}','[["all/month", 100, 1796083200000000]]');
CREATE TABLE counter_sums (
    hour INTEGER NOT NULL, labels TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (hour, labels, name)
) WITHOUT ROWID;
INSERT INTO "counter_sums" VALUES(498852,'{"tenant": "default", "tool": "pay"}','calls',2);
INSERT INTO "counter_sums" VALUES(498852,'{"tenant": "default", "tool": "pay"}','trillionths',500);
CREATE TABLE counter_waiters (
    number INTEGER NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, amount INTEGER NOT NULL, until INTEGER NOT NULL,
    owner TEXT NOT NULL, PRIMARY KEY (key, number)
) WITHOUT ROWID;
CREATE TABLE counters (
    key TEXT PRIMARY KEY, used INTEGER NOT NULL, held INTEGER NOT NULL, until INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "counters" VALUES('all/month',500,100,1796083200000000);
INSERT INTO "counters" VALUES('ever',500,0,0);
CREATE TABLE effects (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    conversation TEXT,
    turn TEXT NOT NULL,
    place TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    claimed_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    settled_by TEXT NOT NULL,
    note TEXT NOT NULL,
    arguments TEXT NOT NULL,
    result TEXT
, handle TEXT, honours_key INTEGER NOT NULL DEFAULT 0);
INSERT INTO "effects" VALUES(1,'555eb0282273a74b25d08466f7182c57d92d9ce47202fecf3d1899da97472f75','default','drawn','45dd08d71bc4de5a92ce5d0b93bc9d31','1.0','draw','22daba19b7cc8316635a68734e8bfe79239d3c9807813e332d6a66adcacb2469','done','9c3edfa484b47ad0deccc0288aa2abc8',1,'2026-11-28T12:48:18.359+00:00','2026-11-28T12:48:18.362+00:00','','','{"subject": "a pixel"}','{"success": true, "tool_name": "draw", "result": {"subject": "a pixel"}, "media": [{"type": "media", "kind": "image", "mime_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "name": "drawing.png"}]}',NULL,0);
INSERT INTO "effects" VALUES(2,'0faa29da79933d4ceb84d67b3c654bbdb34a5dc53e5b9cf08a1a98c4ef92bd50','default','plain','470dd4b9fb3ac626dbd6458f959f0a33','1.0','pay','1fbcdee1ed3766713bdf75f2a44edd3a0e32251a0e7f6571e01aa4f7abc80ada','done','9c3edfa484b47ad0deccc0288aa2abc8',1,'2026-11-28T12:48:18.404+00:00','2026-11-28T12:48:18.405+00:00','','','{"amount": 5}','{"success": true, "tool_name": "pay", "result": "paid 5"}',NULL,0);
INSERT INTO "effects" VALUES(3,'3daf125c8c81e172141d1338614e2b4c25b0ccd4ac74de82f14fdb039737c4e5','default','interrupted','57f17b87c14426b8b29a80e0fdf7d405','1.0','order','aca08fa316a208c7c3e6e152ce30f7a75eb1907ce23aa432233640f9c31e75f0','claimed','9a7079de636c80b91dcf32aba64583ba',1,'2026-11-28T12:48:24.992+00:00','','','','{"item": "lamp"}',NULL,NULL,1);
CREATE TABLE journal_changes (number INTEGER PRIMARY KEY, turn TEXT NOT NULL);
INSERT INTO "journal_changes" VALUES(1,'005839bfc3492b10de152d50cd863c94');
INSERT INTO "journal_changes" VALUES(2,'45dd08d71bc4de5a92ce5d0b93bc9d31');
INSERT INTO "journal_changes" VALUES(3,'470dd4b9fb3ac626dbd6458f959f0a33');
INSERT INTO "journal_changes" VALUES(4,'e97c517e923f5fc4a0845e2e31f09dc9');
INSERT INTO "journal_changes" VALUES(5,'e97c517e923f5fc4a0845e2e31f09dc9');
CREATE TABLE journal_entries (
    turn TEXT NOT NULL REFERENCES journal_turns (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (turn, number)
) WITHOUT ROWID;
INSERT INTO "journal_entries" VALUES('005839bfc3492b10de152d50cd863c94',1,'started','{"request":{"user_message":"Hello","conversation":"plain","traceparent":"00-ee74a08ffa8a22b3ded5e96e8fcff175-3effc15234b2c973-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:18.266+00:00');
INSERT INTO "journal_entries" VALUES('005839bfc3492b10de152d50cd863c94',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}','2026-11-28T12:48:18.285+00:00');
INSERT INTO "journal_entries" VALUES('005839bfc3492b10de152d50cd863c94',3,'request','{"llm":"bot","model":"m","messages":1}','2026-11-28T12:48:18.285+00:00');
INSERT INTO "journal_entries" VALUES('005839bfc3492b10de152d50cd863c94',4,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Hello."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.056074000895023346,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.296+00:00');
INSERT INTO "journal_entries" VALUES('039aebc06f71986f5a3315722bbca53d',1,'accepted','{"request":{"user_message":"Later.","conversation":"accepted","traceparent":"00-1a29e428911ac391e1423094258b17d2-55b306b99a06ae1c-01","key":"request-2"}}','2026-11-28T12:48:18.428+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',1,'started','{"request":{"user_message":"Draw this.","attachments":[{"type":"media","kind":"image","mime_type":"image/png","name":"photo.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}],"conversation":"drawn","traceparent":"00-de4ba4c2cdfe71a89ac9e8a925f24a5b-1f4e19695c410646-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:18.351+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}','2026-11-28T12:48:18.352+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',3,'request','{"llm":"bot","model":"m","messages":1}','2026-11-28T12:48:18.352+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',4,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_jL6VERoh3eqRMR4XUgXp3g"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.1187130001198966,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.354+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',5,'tool','{"iteration":1,"index":0,"record":{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":12,"result":{"subject":"a pixel"},"media":[{"type":"media","kind":"image","mime_type":"image/png","name":"drawing.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},"iteration":1,"call_id":"call_jL6VERoh3eqRMR4XUgXp3g"},"wrote":true}','2026-11-28T12:48:18.368+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',6,'request','{"llm":"bot","model":"m","messages":3}','2026-11-28T12:48:18.368+00:00');
INSERT INTO "journal_entries" VALUES('45dd08d71bc4de5a92ce5d0b93bc9d31',7,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"It is drawn."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.07790899690007791,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.375+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',1,'started','{"request":{"user_message":"Pay 5.","conversation":"plain","traceparent":"00-5674ef2911dd9e3dc0fb425c3ed951e7-c42b791c04e0c306-01","key":"request-1"},"after":"005839bfc3492b10de152d50cd863c94","config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:18.396+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}','2026-11-28T12:48:18.396+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',3,'request','{"llm":"bot","model":"m","messages":3}','2026-11-28T12:48:18.396+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',4,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_5b0j8_rEq8ACz_Rp43c0OQ"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.14657100109616295,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.397+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',5,'tool','{"iteration":1,"index":0,"record":{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":12,"result":"paid 5"},"iteration":1,"call_id":"call_5b0j8_rEq8ACz_Rp43c0OQ"},"wrote":true}','2026-11-28T12:48:18.409+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',6,'request','{"llm":"bot","model":"m","messages":5}','2026-11-28T12:48:18.409+00:00');
INSERT INTO "journal_entries" VALUES('470dd4b9fb3ac626dbd6458f959f0a33',7,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"text","text":"Paid."}]},"finish_reason":"stop"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.09887399937724695,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.410+00:00');
INSERT INTO "journal_entries" VALUES('5716fafe7a70723c03fd77572396b201',1,'started','{"request":{"user_message":"Think.","conversation":"running","traceparent":"00-411cb7eac9bd8164be96d3a71cdc2c43-13c53f5c0f2b6009-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:30.158+00:00');
INSERT INTO "journal_entries" VALUES('5716fafe7a70723c03fd77572396b201',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}','2026-11-28T12:48:30.179+00:00');
INSERT INTO "journal_entries" VALUES('5716fafe7a70723c03fd77572396b201',3,'request','{"llm":"bot","model":"m","messages":1}','2026-11-28T12:48:30.179+00:00');
INSERT INTO "journal_entries" VALUES('57f17b87c14426b8b29a80e0fdf7d405',1,'started','{"request":{"user_message":"Order a lamp.","conversation":"interrupted","traceparent":"00-176c7bd4fae74fe4dc66beffd6e693db-40697392ab4db8b7-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:24.951+00:00');
INSERT INTO "journal_entries" VALUES('57f17b87c14426b8b29a80e0fdf7d405',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","refuse","order","sign"],"sources":{}}','2026-11-28T12:48:24.951+00:00');
INSERT INTO "journal_entries" VALUES('57f17b87c14426b8b29a80e0fdf7d405',3,'request','{"llm":"bot","model":"m","messages":1}','2026-11-28T12:48:24.952+00:00');
INSERT INTO "journal_entries" VALUES('57f17b87c14426b8b29a80e0fdf7d405',4,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"order","arguments":{"item":"lamp"},"id":"call_Q_vJ773iShdfizeX-DSGFA"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.08851600068737753,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:24.983+00:00');
INSERT INTO "journal_entries" VALUES('e97c517e923f5fc4a0845e2e31f09dc9',1,'started','{"request":{"user_message":"Sign the lease.","conversation":"signed","traceparent":"00-b51e622078ce75197948c487e70a36cf-bd782443c65f14be-01"},"after":null,"config":"b82bada83b623ba9","packages":["flexchat-core 0.1.0","flexchat-testing 0.1.0"]}','2026-11-28T12:48:18.411+00:00');
INSERT INTO "journal_entries" VALUES('e97c517e923f5fc4a0845e2e31f09dc9',2,'rule','{"index":0,"outcome":{"rule":0,"match":{},"llm":"bot"},"tools":["weather","draw","pay","pay_or_lose","order","refuse","sign"],"sources":{}}','2026-11-28T12:48:18.411+00:00');
INSERT INTO "journal_entries" VALUES('e97c517e923f5fc4a0845e2e31f09dc9',3,'request','{"llm":"bot","model":"m","messages":1}','2026-11-28T12:48:18.411+00:00');
INSERT INTO "journal_entries" VALUES('e97c517e923f5fc4a0845e2e31f09dc9',4,'answer','{"result":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"sign","arguments":{"paper":"lease"},"id":"call_3mK-yL4VnXeAed1iJD6TiQ"}]},"finish_reason":"tool_calls"},"llm":"bot","model":"m","fallback":[],"elapsed_ms":0.06728200241923332,"price":null,"asked_for_form":false,"warnings":[]}','2026-11-28T12:48:18.412+00:00');
INSERT INTO "journal_entries" VALUES('e97c517e923f5fc4a0845e2e31f09dc9',5,'question','{"iteration":1,"index":0,"place":"1.0","call":"f1e7d1f24b78070e3e6634c3edd8d1d60441db56cf24dcd95e91cc5b7d567be9","question":{"message":"Run sign with {\"paper\": \"lease\"}?","id":"call_NkpeLS7MfzxdtDvoJaqF3g","tool":"sign","call_id":"call_3mK-yL4VnXeAed1iJD6TiQ","digest":"69fcca0286b103e3402c141425559aa7c0451089224ac9f16814987ab85a652d","details":{"arguments":{"paper":"lease"}}}}','2026-11-28T12:48:18.413+00:00');
CREATE TABLE journal_events (
    turn TEXT NOT NULL REFERENCES journal_turns (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (turn, number)
) WITHOUT ROWID;
CREATE TABLE journal_turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    began_at TEXT NOT NULL,
    ended_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
, key TEXT NOT NULL DEFAULT '', suspensions INTEGER NOT NULL DEFAULT 0, cancelled_by TEXT NOT NULL DEFAULT '', due_at TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL DEFAULT 0, is_next INTEGER NOT NULL DEFAULT 0, format INTEGER NOT NULL DEFAULT 1);
INSERT INTO "journal_turns" VALUES(1,'005839bfc3492b10de152d50cd863c94','default','plain','done','Hello','28ee61f08df4f4804ba164d9f56a97b0',1,'2026-11-28T12:48:18.285+00:00','2026-11-28T12:48:18.328+00:00','','',0,'','',0,0,1);
INSERT INTO "journal_turns" VALUES(2,'45dd08d71bc4de5a92ce5d0b93bc9d31','default','drawn','done','Draw this.','28ee61f08df4f4804ba164d9f56a97b0',1,'2026-11-28T12:48:18.352+00:00','2026-11-28T12:48:18.376+00:00','','',0,'','',0,0,1);
INSERT INTO "journal_turns" VALUES(3,'470dd4b9fb3ac626dbd6458f959f0a33','default','plain','done','Pay 5.','28ee61f08df4f4804ba164d9f56a97b0',1,'2026-11-28T12:48:18.396+00:00','2026-11-28T12:48:18.410+00:00','','request-1',0,'','',0,0,1);
INSERT INTO "journal_turns" VALUES(4,'e97c517e923f5fc4a0845e2e31f09dc9','default','signed','suspended','Sign the lease.','',1,'2026-11-28T12:48:18.412+00:00','','','',1,'','',0,0,1);
INSERT INTO "journal_turns" VALUES(5,'039aebc06f71986f5a3315722bbca53d','default','accepted','accepted','Later.','',0,'2026-11-28T12:48:18.428+00:00','','','request-2',0,'','',0,1,1);
INSERT INTO "journal_turns" VALUES(6,'57f17b87c14426b8b29a80e0fdf7d405','default','interrupted','running','Order a lamp.','cc84974f358378dce42fb134f5de9075',1,'2026-11-28T12:48:24.952+00:00','','','',0,'','',0,0,1);
INSERT INTO "journal_turns" VALUES(7,'5716fafe7a70723c03fd77572396b201','default','running','running','Think.','1159db4d85fb2375ed1a22a3174a1cc3',1,'2026-11-28T12:48:30.179+00:00','','','',0,'','',0,0,1);
CREATE TABLE media (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, sha256 TEXT, bytes INTEGER NOT NULL,
    held_until TEXT NOT NULL, UNIQUE (tenant, sha256)
);
INSERT INTO "media" VALUES(1,'default','6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0',70,'');
CREATE TABLE media_migration (next INTEGER NOT NULL);
INSERT INTO "media_migration" VALUES(0);
CREATE TABLE media_pieces (
    medium INTEGER NOT NULL REFERENCES media (number) ON DELETE CASCADE, place INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (medium, place)
);
INSERT INTO "media_pieces" VALUES(1,0,X'89504E470D0A1A0A0000000D49484452000000010000000108060000001F15C4890000000D4944415478DA6364F8CF500F00038601805A347D6B0000000049454E44AE426082');
CREATE TABLE media_uses (
    medium INTEGER NOT NULL REFERENCES media (number),
    turn INTEGER REFERENCES turns (number) ON DELETE CASCADE,
    journaled TEXT REFERENCES journal_turns (id) ON DELETE CASCADE,
    UNIQUE (turn, medium), UNIQUE (journaled, medium)
);
INSERT INTO "media_uses" VALUES(1,NULL,'45dd08d71bc4de5a92ce5d0b93bc9d31');
INSERT INTO "media_uses" VALUES(1,2,NULL);
CREATE TABLE owners (owner TEXT PRIMARY KEY, renewed REAL NOT NULL, lease REAL NOT NULL) WITHOUT ROWID;
INSERT INTO "owners" VALUES('1159db4d85fb2375ed1a22a3174a1cc3',17137.48459766,2.0);
INSERT INTO "owners" VALUES('28ee61f08df4f4804ba164d9f56a97b0',17125.590949833,2.0);
INSERT INTO "owners" VALUES('9a7079de636c80b91dcf32aba64583ba',17132.298160159,2.0);
INSERT INTO "owners" VALUES('9c3edfa484b47ad0deccc0288aa2abc8',17125.709661645,2.0);
INSERT INTO "owners" VALUES('cc84974f358378dce42fb134f5de9075',17132.257371511,2.0);
INSERT INTO "owners" VALUES('ended',17125.738772635,600.0);
INSERT INTO "owners" VALUES('killed',17125.740606476,0.01);
CREATE TABLE questions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL, conversation TEXT NOT NULL, turn TEXT NOT NULL, digest TEXT NOT NULL,
    state TEXT NOT NULL, asked_at TEXT NOT NULL, expires_at TEXT NOT NULL,
    replied_by TEXT NOT NULL, replied_at TEXT NOT NULL, used_by TEXT NOT NULL, remembered TEXT NOT NULL,
    question TEXT NOT NULL, reply TEXT, send_at TEXT
);
INSERT INTO "questions" VALUES(1,'call_NkpeLS7MfzxdtDvoJaqF3g','default','signed','e97c517e923f5fc4a0845e2e31f09dc9','69fcca0286b103e3402c141425559aa7c0451089224ac9f16814987ab85a652d','open','2026-11-28T12:48:18.412+00:00','2026-12-05T12:48:18.412+00:00','','','','','{"message":"Run sign with {\"paper\": \"lease\"}?","id":"call_NkpeLS7MfzxdtDvoJaqF3g","tool":"sign","call_id":"call_3mK-yL4VnXeAed1iJD6TiQ","digest":"69fcca0286b103e3402c141425559aa7c0451089224ac9f16814987ab85a652d","details":{"arguments":{"paper":"lease"}}}',NULL,'2026-11-28T12:48:18.412+00:00');
CREATE TABLE schema_steps (applied INTEGER NOT NULL);
INSERT INTO "schema_steps" VALUES(17);
CREATE TABLE turn_keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    turn TEXT NOT NULL,
    digest TEXT NOT NULL,
    begun INTEGER NOT NULL,
    bound_at TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
INSERT INTO "turn_keys" VALUES('default','request-1','470dd4b9fb3ac626dbd6458f959f0a33','6733c8cb929e7929f45b06385ef14120ba199dd541198c29266ee20fd7867b40',1,'2026-11-28T12:48:18.379+00:00');
INSERT INTO "turn_keys" VALUES('default','request-2','039aebc06f71986f5a3315722bbca53d','ebde3c514f6d1492435a3047e9038bfbcaa160a0a63f94b32217d7bb1370db61',1,'2026-11-28T12:48:18.425+00:00');
CREATE TABLE turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    id TEXT NOT NULL,
    turn TEXT NOT NULL,
    folded_text TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'done', history TEXT,
    UNIQUE (tenant, conversation, id),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, id) ON DELETE CASCADE
        DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "turns" VALUES(1,'default','plain','005839bfc3492b10de152d50cd863c94','{"llm":"bot","model":"m","at":"2026-11-28T12:48:18.296+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Hello","status":"new_topic"},"elapsed_ms":18.433491000905633,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.032239000574918464,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.008543000149074942,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.02851399767678231},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.03632399966591038},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":0},"elapsed_ms":11.177185002452461}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.056074000895023346,"finish_reason":"stop"}],"tool_calls":[],"finish_reason":"stop","elapsed_ms":29.763414997432847,"traceparent":"00-ee74a08ffa8a22b3ded5e96e8fcff175-3effc15234b2c973-01"}','hello
hello.','done','{"id":"005839bfc3492b10de152d50cd863c94","messages":[{"role":"user","content":"Hello"},{"role":"assistant","parts":[{"type":"text","text":"Hello."}]}],"topic":"Hello"}');
INSERT INTO "turns" VALUES(2,'default','drawn','45dd08d71bc4de5a92ce5d0b93bc9d31','{"llm":"bot","model":"m","at":"2026-11-28T12:48:18.375+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Draw this.","status":"new_topic"},"elapsed_ms":0.05523000072571449,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.017361999198328704,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.00756699955672957,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.01676900137681514},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.02324199886061251},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":23.32661000036751}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.1187130001198966,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.07790899690007791,"finish_reason":"stop"}],"tool_calls":[{"tool":"draw","params":{"subject":"a pixel"},"result":{"success":true,"tool_name":"draw","execution_time_ms":12,"result":{"subject":"a pixel"},"media":"as in the message"},"iteration":1,"call_id":"call_jL6VERoh3eqRMR4XUgXp3g"}],"finish_reason":"stop","elapsed_ms":23.485155001253588,"traceparent":"00-de4ba4c2cdfe71a89ac9e8a925f24a5b-1f4e19695c410646-01"}','draw this.
it is drawn.','done','{"id":"45dd08d71bc4de5a92ce5d0b93bc9d31","messages":[{"role":"user","content":"Draw this.","media":[{"type":"media","kind":"image","mime_type":"image/png","name":"photo.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},{"role":"assistant","parts":[{"type":"tool_call","name":"draw","arguments":{"subject":"a pixel"},"id":"call_jL6VERoh3eqRMR4XUgXp3g"}]},{"role":"tool","tool_call_id":"call_jL6VERoh3eqRMR4XUgXp3g","name":"draw","content":"{\"success\": true, \"result\": {\"subject\": \"a pixel\"}, \"tool_name\": \"draw\", \"execution_time_ms\": 12, \"media\": [{\"kind\": \"image\", \"mime_type\": \"image/png\", \"bytes\": 70, \"name\": \"drawing.png\"}]}","media":[{"type":"media","kind":"image","mime_type":"image/png","name":"drawing.png","sha256":"6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0","bytes":70}]},{"role":"assistant","parts":[{"type":"text","text":"It is drawn."}]}],"topic":"Draw this."}');
INSERT INTO "turns" VALUES(3,'default','plain','470dd4b9fb3ac626dbd6458f959f0a33','{"llm":"bot","model":"m","at":"2026-11-28T12:48:18.410+00:00","rule":0,"phases":[{"phase":"topic detection","outcome":{"topic":"Pay 5.","status":"new_topic"},"elapsed_ms":0.07575600102427416,"skipped":"no rule asks for it"},{"phase":"rag collection","outcome":{"result":"none","data":null},"elapsed_ms":0.022633998014498502,"skipped":"no rule asks for it"},{"phase":"intent detection","outcome":null,"elapsed_ms":0.008851002348819748,"skipped":"no rule asks for it"},{"phase":"profile building","outcome":{"rag_results":"none","intent":null,"service":null,"collection":null,"documents":0},"elapsed_ms":0.01919099668157287},{"phase":"response matching","outcome":{"rule":0,"match":{},"llm":"bot"},"elapsed_ms":0.022105003154138103},{"phase":"response generation","outcome":{"llm":"bot","model":"m","tool_calls":1},"elapsed_ms":13.866221997886896}],"rounds":[{"llm":"bot","model":"m","elapsed_ms":0.14657100109616295,"finish_reason":"tool_calls"},{"llm":"bot","model":"m","elapsed_ms":0.09887399937724695,"finish_reason":"stop"}],"tool_calls":[{"tool":"pay","params":{"amount":5},"result":{"success":true,"tool_name":"pay","execution_time_ms":12,"result":"paid 5"},"iteration":1,"call_id":"call_5b0j8_rEq8ACz_Rp43c0OQ"}],"finish_reason":"stop","elapsed_ms":14.04940799693577,"traceparent":"00-5674ef2911dd9e3dc0fb425c3ed951e7-c42b791c04e0c306-01"}','pay 5.
paid.','done','{"id":"470dd4b9fb3ac626dbd6458f959f0a33","messages":[{"role":"user","content":"Pay 5."},{"role":"assistant","parts":[{"type":"tool_call","name":"pay","arguments":{"amount":5},"id":"call_5b0j8_rEq8ACz_Rp43c0OQ"}]},{"role":"tool","tool_call_id":"call_5b0j8_rEq8ACz_Rp43c0OQ","name":"pay","content":"{\"success\": true, \"result\": \"paid 5\", \"tool_name\": \"pay\", \"execution_time_ms\": 12}"},{"role":"assistant","parts":[{"type":"text","text":"Paid."}]}],"topic":"Pay 5."}');
CREATE INDEX conversations_by_use ON conversations (tenant, last_turn);
CREATE INDEX effects_of_conversations ON effects (tenant, conversation) WHERE conversation IS NOT NULL;
CREATE INDEX effects_not_ended ON effects (tenant, state) WHERE state IN ('claimed', 'unknown');
CREATE INDEX effects_by_end ON effects (ended_at) WHERE ended_at <> '';
CREATE INDEX journal_turns_by_conversation ON journal_turns (tenant, conversation);
CREATE INDEX journal_turns_running ON journal_turns (owner) WHERE state = 'running';
CREATE INDEX turn_keys_by_age ON turn_keys (bound_at);
CREATE INDEX turns_by_conversation ON turns (tenant, conversation);
CREATE INDEX journal_turns_running_in ON journal_turns (tenant, conversation) WHERE state = 'running';
CREATE INDEX journal_turns_resumable ON journal_turns (error) WHERE state = 'running';
CREATE INDEX journal_turns_waiting_in ON journal_turns (tenant, conversation, state)
    WHERE state = 'suspended' OR state = 'accepted';
CREATE INDEX journal_turns_next ON journal_turns (due_at, priority DESC) WHERE state = 'accepted' AND is_next;
CREATE TRIGGER journal_turns_begun AFTER INSERT ON journal_turns 
BEGIN
    UPDATE journal_turns SET is_next = NOT EXISTS (SELECT 1 FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'running')
        AND NOT EXISTS (SELECT 1 FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'suspended')
    WHERE number = (SELECT min(number) FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'accepted');
END;
CREATE TRIGGER journal_turns_ended AFTER UPDATE OF ended_at ON journal_turns 
BEGIN
    UPDATE journal_turns SET is_next = NOT EXISTS (SELECT 1 FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'running')
        AND NOT EXISTS (SELECT 1 FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'suspended')
    WHERE number = (SELECT min(number) FROM journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state = 'accepted');
END;
CREATE INDEX questions_by_tenant ON questions (tenant);
CREATE INDEX questions_by_conversation ON questions (tenant, conversation);
CREATE INDEX questions_by_turn ON questions (turn);
CREATE INDEX questions_open ON questions (tenant) WHERE state = 'open';
CREATE INDEX questions_by_expiry ON questions (expires_at) WHERE state = 'open';
CREATE INDEX questions_unsent ON questions (send_at) WHERE state = 'open' AND send_at IS NOT NULL;
CREATE INDEX questions_remembered ON questions (tenant, remembered) WHERE remembered != '';
CREATE INDEX questions_used ON questions (used_by) WHERE used_by != '';
CREATE TRIGGER questions_of_ended AFTER UPDATE OF ended_at ON journal_turns WHEN NEW.ended_at != ''
BEGIN
    UPDATE questions SET state = 'withdrawn' WHERE turn = NEW.id AND state = 'open';
END;
CREATE TRIGGER questions_of_deleted AFTER DELETE ON journal_turns
BEGIN
    DELETE FROM questions WHERE turn = OLD.id AND remembered = '';
    UPDATE questions SET question = json_set(json_remove(question, '$.schema', '$.url', '$.call_id', '$.details'), '$.message', ''), reply = json_remove(reply, '$.content', '$.why') WHERE turn = OLD.id;
END;
CREATE INDEX effects_pending ON effects (claimed_at) WHERE state = 'pending';
CREATE TRIGGER journal_changes_old AFTER INSERT ON journal_changes
BEGIN DELETE FROM journal_changes WHERE number <= NEW.number - 1000; END;
CREATE TRIGGER journal_turns_changed AFTER UPDATE OF state, owner, ended_at, cancelled_by ON journal_turns
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.id); END;
CREATE TRIGGER questions_asked AFTER INSERT ON questions
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.turn); END;
CREATE TRIGGER questions_changed AFTER UPDATE OF state ON questions
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.turn); END;
CREATE INDEX media_sizes ON media (tenant, bytes);
CREATE INDEX media_held ON media (held_until) WHERE held_until != '';
CREATE INDEX media_uses_of_media ON media_uses (medium);
CREATE TRIGGER media_unused AFTER DELETE ON media_uses
BEGIN
    DELETE FROM media WHERE number = OLD.medium AND held_until = ''
        AND NOT EXISTS (SELECT 1 FROM media_uses WHERE medium = OLD.medium);
END;
CREATE INDEX counter_waiters_by_id ON counter_waiters (id);
CREATE INDEX counter_waiters_by_number ON counter_waiters (number);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('journal_turns',7);
INSERT INTO "sqlite_sequence" VALUES('turns',3);
INSERT INTO "sqlite_sequence" VALUES('media',1);
INSERT INTO "sqlite_sequence" VALUES('questions',1);
COMMIT;
