"""flexchat check of whatever JSON value stands in place of a table: status 0 or 2, never a traceback."""

import json

import pytest

WHOLE = {
    "llms": {"robot": {"provider": "scripted", "replies": [{"text": "hi"}], "default_model": "m"}},
    "responses": [{"llm": "robot", "prompt": "{{company.name}}"}],
    "tools": {"registry": [{"name": "calculator"}]},
    "stores": {"docs": {"provider": "memory", "documents": [{"text": "x"}]}},
    "topic": {"llm": "robot"},
    "intent": {"llm": "robot", "detection": {"a": "b"}},
    "embedding": {"llm": "robot"},
    "variables": {"company": {"name": "Acme"}},
    "conversations": {"provider": "sqlite"},
    "validation": {"cases": [{"name": "c", "message": "m", "no_call": True}]},
    "plugins": {"block": [], "require": ["mock"]},
    "limits": {"turn_timeout_ms": 5},
}


@pytest.mark.parametrize("table", sorted(WHOLE))
@pytest.mark.parametrize("value", [None, 1, "x", [], [1], {}, {"a": 1}], ids=json.dumps)
def test_any_value_in_place_of_a_table_is_judged(run, tmp_path, table, value, monkeypatch, host):
    monkeypatch.setattr("flexchat.assembly.installed_plugins", lambda *_: host)
    (tmp_path / "flexchat.json").write_text(json.dumps({**WHOLE, table: value}))

    ran = run("check")

    assert ran.status in (0, 2)
    assert "Traceback" not in ran.err
    assert "internal error" not in ran.err


@pytest.fixture(scope="module")
def host():
    """Loaded once: no test changes them."""
    from flexchat.assembly import installed_plugins

    return installed_plugins()
