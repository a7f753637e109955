"""Whatever JSON value stands in place of a part of a posted configuration: an answer says what is wrong with it."""

import copy
import json

import pytest

WHOLE = {
    "llms": {"robot": {"provider": "scripted", "replies": [{"text": "hi"}], "repeat": True}},
    "responses": [{"llm": "robot", "model": "m", "match": {"topic": "x"}, "tools": {"allowed_tools": ["calculator"]}}],
    "tools": {"registry": [{"name": "calculator"}]},
    "stores": {"docs": {"provider": "memory", "documents": [{"text": "x"}]}},
    "topic": {"llm": "robot"},
    "intent": {"llm": "robot", "detection": {"a": "b"}},
    "embedding": {"llm": "robot"},
    "variables": {"company": {"name": "Acme"}},
    "conversations": {"provider": "sqlite"},
    "validation": {"cases": [{"name": "c", "message": "m", "no_call": True}], "files": ["x.toml"]},
    "plugins": {"block": ["none-such"], "require": ["mock"]},
    "limits": {"turn_timeout_ms": 5},
    "server": {"x": 1},
}
INSIDE = {
    "llms": ("robot",),
    "responses": (0,),
    "tools": ("registry",),
    "stores": ("docs",),
    "topic": ("provider",),
    "intent": ("detection",),
    "validation": ("cases",),
    "plugins": ("block",),
}
VALUES = [None, True, 1, 1.5, "", [], [1], [[]], {}, {"a": 1}, {"": None}]


def changed(table, value, *, inside):
    config = copy.deepcopy(WHOLE)
    if inside and table in INSIDE:
        config[table][INSIDE[table][0]] = value
    else:
        config[table] = value
    return config


@pytest.fixture
async def api(config_file, new_client):
    config_file.unlink()
    file = config_file.with_suffix(".json")
    simple = {"llms": WHOLE["llms"], "responses": [{"llm": "robot", "model": "m"}]}
    file.write_text(json.dumps(simple))
    return await new_client(file)


@pytest.mark.parametrize("value", [1, []], ids=str)
async def test_a_wrong_value_is_answered_by_every_operation(api, value):
    await _asked(api, "validation", value, inside=False)


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True], ids=["table", "part"])
@pytest.mark.parametrize("table", sorted(WHOLE))
async def test_any_value_is_answered_by_every_operation(api, table, inside):
    for value in VALUES:
        await _asked(api, table, value, inside=inside)


async def _asked(api, table, value, *, inside):
    """validate as text and as tables, diff, edit, save and reload: never 500."""
    config = changed(table, value, inside=inside)
    text = json.dumps(config)
    version = (await api.get("/api/config")).json()["version"]
    change = {"path": [table], "value": value}
    asked = [
        ("POST", "validate", {"text": text}),
        ("POST", "validate", {"config": config}),
        ("POST", "diff", {"text": text}),
        ("POST", "edit", {"text": text, "format": "json", "changes": [change]}),
        ("PUT", "", {"text": text, "version": version}),
        ("POST", "reload", config),
    ]
    for method, name, body in asked:
        answer = await api.request(method, f"/api/config/{name}".rstrip("/"), json=body)
        assert answer.status_code < 500, (name, table, value, answer.text[:300])
