"""Ten secrets, planted wherever one can stand, are in no answer of any operation."""

import json

import pytest

CANARIES = {name: f"canary-{name}-7f3a9c" for name in (
    "literal", "header", "url", "dsn", "variable", "default", "comment", "environment", "extra", "token",
)}  # fmt: skip

TOML = f"""\
# api_key = "{CANARIES["comment"]}"
[llms.a]
provider = "openai"
api_key = "{CANARIES["literal"]}"
base_url = "http://user:{CANARIES["url"]}@127.0.0.1:9/v1"
retries = 0
extra_headers = {{ X-Api-Key = "{CANARIES["header"]}" }}
default_model = "m"

[llms.b]
provider = "openai"
api_key = "${{CANARY_KEY}}"
base_url = "http://127.0.0.1:9/v1"
extra_body = {{ access_token = "{CANARIES["extra"]}" }}
retries = 0
default_model = "m"

[llms.c]
provider = "openai"
api_key = "${{ABSENT_KEY:-{CANARIES["default"]}}}"
base_url = "http://127.0.0.1:9/v1"
retries = 0

[stores.d]
provider = "pgvector"
dsn = "postgresql://u:{CANARIES["dsn"]}@127.0.0.1:9/db"

[[responses]]
llm = "a"

[conversations]
"""

CHAT = {"prompt": "hi", "previousMessages": []}
BODIES = {
    "/chat/api": [CHAT, {**CHAT, "stream": True}],
    "/api/explain": [CHAT],
    "/api/markdown": [{"texts": ["x"]}],
    "/api/tools/call": [{"name": "x", "arguments": {}}],
    "/api/tools/test": [
        {"query": "x", "model": "a/m"},
        {"llm": "b", "model": "m", "query": "x"},
        {"query": "x", "model": "m", "provider_config": {"provider": "openai", "api_key": "${CANARY_KEY}"}},
    ],
    "/api/tools/validate": [{"model": "a/m", "success": True}],
    "/api/validation/runs": [{}],
    "/api/validation/import": [{}],
    "/api/config/validate": [{"text": "SHOWN"}, {"text": "SHOWN\nllms.a.retries = []"}, {"config": {}}],
    "/api/config/edit": [{"text": "SHOWN", "format": "toml", "changes": []}],
    "/api/config/diff": [{"text": TOML}, {"text": "SHOWN [ "}, {"text": ""}],
    "/api/config": [{"text": "x = 1", "version": "x"}, {"text": "SHOWN", "version": "VERSION"}],
    "/api/config/reload": [{"llms": {"a": {"provider": "openai", "api_key": "${CANARY_KEY}", "nonsense": 1}}}, {}],
    "/api/connections/test": [
        {"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"},
        {"type": "llm", "provider": "openai", "config": {"api_key": "${CANARY_KEY}"}},
        {"type": "llm", "provider": "openai",
         "config": {"api_key": CANARIES["literal"], "base_url": "http://127.0.0.1:9", "retries": CANARIES["default"]}},
    ],
    "/api/connections/providers/{name}/models": [{"config": {"api_key": "${CANARY_KEY}"}}],
    "/api/connections/llm/discovery/models": [{"provider": "openai", "config": {"organization": "${CANARY_KEY}"}}],
    "/v1/chat/completions": [
        {"model": name, "messages": [{"role": "user", "content": "x"}], "stream": stream}
        for name in ("flexchat", "a/m", "b/m", "zz") for stream in (False, True)
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True], ids=["whole file", "broken file"])
async def test_no_operation_tells_a_secret(config_file, new_app, client_of, monkeypatch, caplog, broken):
    """Every operation of the app, well called and badly; the log does not tell either."""
    monkeypatch.setenv("CANARY_KEY", CANARIES["variable"])
    monkeypatch.setenv("OTHER_API_KEY", CANARIES["environment"])
    config_file.write_text(TOML)
    app = new_app(tokens={CANARIES["token"]: "alice"})
    if broken:
        config_file.write_text(TOML + "[broken")
    headers = {"authorization": f"Bearer {CANARIES['token']}"}
    asked = 0
    async with client_of(app, headers=headers) as client:
        shown = (await client.get("/api/config")).json()
        for operation in app.operations:
            path = operation.path.replace(":path}", "}")
            path_with_name = path.replace("{name}", "openai").replace("{id}", "a/m" if "v1" in path else "x")
            bodies = BODIES.get(path, [{}]) if operation.body is not None else [None]
            bodies = json.loads(
                json.dumps(bodies)
                .replace("SHOWN", json.dumps(shown["text"])[1:-1])
                .replace("VERSION", shown["version"])
            )
            for body in [*bodies, *([["wrong"]] if operation.body is not None else [])]:
                answer = await client.request(operation.method, path_with_name, json=body) if body is not None else (
                    await client.request(operation.method, path_with_name)
                )  # fmt: skip
                asked += 1
                said = answer.text + json.dumps(dict(answer.headers))
                told = [name for name, secret in CANARIES.items() if secret in said]
                assert not told, f"{operation.method} {path} {body} tells {told}"
    assert asked > len(app.operations)
    assert not [name for name, secret in CANARIES.items() if secret in caplog.text]
