"""Texts of configurations: changed at one place, shown without secrets."""

import copy
import tomllib

import pytest
from flexchat.config.document import parse_document, walk
from flexchat.domain.masking import Mask
from flexchat_web.config.editing import edit, set_values
from flexchat_web.config.file import written_as
from flexchat_web.config.secrets import MASKED, mask_secrets, same_target, secret_places, shown_unread
from flexchat_web.problems import ApiError
from hypothesis import given
from hypothesis import strategies as st

TOML = """\
# The head.
title = "x" # behind

[llms.a] # the first
provider = "openai"   # spaced
base_url = 'http://a'

# Before b.
[llms.b]
provider = "ollama"
list = [
  1, # one
  2,
]
inline = { x = 1, y = [1, 2] }

[[responses]]
llm = "a"
prompt = \"\"\"
Two
lines\"\"\"

[[responses]] # second
llm = "b"
[responses.match]
topic = "t"

[tools]
dotted.key = true
"""


def changed(text, **change):
    return edit(text, "flexchat.toml", [change])


def test_a_value_is_set_and_the_rest_stays_to_the_letter():
    text = changed(TOML, path=["llms", "a", "base_url"], value="http://b")
    assert text == TOML.replace("'http://a'", '"http://b"')


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"path": ["llms", "c", "provider"], "value": "x"}, lambda d: d["llms"].update(c={"provider": "x"})),
        ({"path": ["llms", "c"], "value": {"provider": "x", "n": {"m": 1}}},
         lambda d: d["llms"].update(c={"provider": "x", "n": {"m": 1}})),
        ({"path": ["llms", "b"], "remove": True}, lambda d: d["llms"].pop("b")),
        ({"path": ["responses", 0], "remove": True}, lambda d: d["responses"].pop(0)),
        ({"path": ["responses", 1], "move_to": 0}, lambda d: d["responses"].insert(0, d["responses"].pop(1))),
        ({"path": ["responses"], "insert": {"llm": "c", "tools": {"enabled": True}}},
         lambda d: d["responses"].append({"llm": "c", "tools": {"enabled": True}})),
        ({"path": ["responses"], "insert": {"llm": "c"}, "before": 1},
         lambda d: d["responses"].insert(1, {"llm": "c"})),
        ({"path": ["llms", "b", "list", 1], "value": 7}, lambda d: d["llms"]["b"]["list"].__setitem__(1, 7)),
        ({"path": ["llms", "b", "list"], "insert": 3}, lambda d: d["llms"]["b"]["list"].append(3)),
        ({"path": ["llms", "b", "inline", "y", 0], "remove": True}, lambda d: d["llms"]["b"]["inline"]["y"].pop(0)),
        ({"path": ["tools", "registry"], "insert": {"name": "n"}},
         lambda d: d["tools"].update(registry=[{"name": "n"}])),
        ({"path": ["tools", "dotted", "key"], "value": False}, lambda d: d["tools"]["dotted"].update(key=False)),
        ({"path": ["title"], "value": 'quo"te\n\\ \u0007 ü'}, lambda d: d.update(title='quo"te\n\\ \u0007 ü')),
    ],
)  # fmt: skip
def test_each_kind_of_change_does_what_it_says_and_keeps_comments(change, wanted):
    text = changed(TOML, **change)
    data = tomllib.loads(TOML)
    wanted(data)
    assert tomllib.loads(text) == data
    assert "# The head." in text
    assert "# the first" in text


@pytest.mark.parametrize(
    "change",
    [
        {"path": ["llms", "zz"], "remove": True},
        {"path": ["responses", 2], "remove": True},
        {"path": ["responses", -1], "remove": True},
        {"path": ["responses", "0"], "value": 1},
        {"path": ["title", "x"], "value": 1},
        {"path": ["title"], "insert": 1},
        {"path": ["title"], "move_to": 0},
        {"path": ["responses"], "insert": {}, "before": 9},
        {"path": ["responses", 0], "move_to": 2},
        {"path": [1], "value": 1},
        {"path": ["llms", 0, "x"], "value": 1},
        {"path": ["title"], "value": None},
        {"path": ["title"], "value": {"a": [{"b": None}]}},
        {"path": ["responses"], "insert": None},
    ],
)
def test_a_change_that_leads_nowhere_is_told(change):
    with pytest.raises(ApiError) as raised:
        changed(TOML, **change)
    assert raised.value.status == 422
    assert "changes[0]" in raised.value.detail


def test_json_is_changed_too_and_keeps_its_indentation():
    text = '{\n    "a": {\n        "b": 1\n    }\n}\n'
    assert edit(text, "flexchat.json", [{"path": ["a", "c"], "value": None}]) == (
        '{\n    "a": {\n        "b": 1,\n        "c": null\n    }\n}\n'
    )


KEYS = st.sampled_from(["a", "b", "with space", "ü", "dot.ted"])
SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
TABLES = st.recursive(
    st.dictionaries(KEYS, SCALARS, max_size=3),
    lambda inner: st.dictionaries(KEYS, inner | SCALARS | st.lists(inner | SCALARS, max_size=3), max_size=3),
    max_leaves=8,
)


@given(TABLES, st.data())
def test_an_edit_changes_exactly_that_place_and_the_text_stays_readable(table, data):
    """Law, for a text that was itself made by edits, at any place, in each format."""
    places = [place for place, _ in walk(table)]
    place = data.draw(st.sampled_from(places)) if places else ("new",)
    value = data.draw(SCALARS | TABLES)
    for source, empty in (("flexchat.toml", "# head\n"), ("flexchat.yaml", "# head\n"), ("flexchat.json", "{}")):
        text = edit(empty, source, [{"path": [key], "value": item} for key, item in table.items()])
        assert parse_document(text, source).data == table
        wanted = copy.deepcopy(table)
        holder = wanted
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
        changed_text = edit(text, source, [{"path": list(place), "value": value}])
        assert parse_document(changed_text, source).data == wanted


@given(TABLES, st.data())
def test_values_are_set_at_many_places_at_once(table, data):
    text = edit("", "flexchat.toml", [{"path": [key], "value": item} for key, item in table.items()])
    texts = [place for place, value in walk(table) if isinstance(value, str)]
    chosen = data.draw(st.sets(st.sampled_from(texts))) if texts else set()
    after = parse_document(set_values(text, "flexchat.toml", dict.fromkeys(chosen, MASKED)), "flexchat.toml").data
    found = dict(walk(after))
    for place, value in walk(table):
        if not isinstance(value, (dict, list)):
            assert found[place] == (MASKED if place in chosen else value)


SECRETS = """\
# old api_key = "comment-secret-1"  and sk-comment-secret-2
[llms.a]
provider = "openai"
api_key = "literal-secret-3"
extra_headers = { Authorization = "Bearer header-secret-4", X-Plain = "plain" }
base_url = "https://user:url-secret-5@host.example"

[llms.b]
provider = "ollama"
api_key = "${OLLAMA_KEY}" # sk-comment-secret-6
default_model = "ENV-SECRET-7"

[llms.c]
provider = "openai"
api_key = "${C_KEY:-default-secret-8}"

[stores.d]
provider = "pgvector"
dsn = "host=x password=dsn-secret-9"

[conversations]
provider = "postgresql"
dsn = "postgresql://u:dsn-secret-10@host/db"

[[responses]]
llm = "a"
prompt = '''
# Password: ask the user for it.
The password is: what the user says. Never say literal-secret-3.'''

[[tools.registry]]
name = "login"
[tools.registry.parameters.properties]
password = { type = "string" }
token = { type = "string", description = "shown" }
"""


@pytest.mark.parametrize("format_", ["toml", "yaml", "json"])
def test_a_secret_is_never_shown_and_the_rest_is(plugins, monkeypatch, format_):
    """In settings, headers, addresses, defaults, comments, and wherever a known secret is repeated."""
    monkeypatch.setenv("SOME_API_KEY", "ENV-SECRET-7")
    text = SECRETS if format_ == "toml" else written_as(tomllib.loads(SECRETS), format_)
    document = parse_document(text, f"flexchat.{format_}")
    seen = mask_secrets(text, document, plugins, Mask())
    assert "secret-" not in seen.lower()
    assert "${OLLAMA_KEY}" in seen
    data = parse_document(seen, f"flexchat.{format_}").data
    assert data["llms"]["a"]["extra_headers"] == {"Authorization": MASKED, "X-Plain": MASKED}
    assert data["tools"] == document.data["tools"], "a parameter that is called password is no secret"


def test_prose_about_passwords_is_no_secret(plugins):
    text = '[[responses]]\nllm = "a"\nprompt = """\n# Password: ask.\nThe password is: hunter"""\n'
    assert mask_secrets(text, parse_document(text, "flexchat.toml"), plugins, Mask()) == text


def test_references_to_the_environment_are_shown(plugins):
    text = '[llms.a]\nprovider = "openai"\napi_key = "${K}"\n[llms.b]\nprovider = "x"\ntoken = "Bearer ${T}"\n'
    assert secret_places(parse_document(text, "f.toml").data, plugins, Mask()) == {}


def test_a_text_that_cannot_be_read_shows_no_secret_either():
    broken = (
        '[llms.a\napi_key = "literal-secret"\npassword: other-secret\n"token" = "x-secret"\nkey2 = sk-abcdefgh-secret\n'
    )
    seen = shown_unread(broken, Mask())
    assert "secret" not in seen
    assert seen.startswith("[llms.a\n")


def test_what_a_service_is_sent_as_a_header_is_masked_and_so_are_secrets_within_settings(plugins):
    """A header that proves who asks has any name; a class of settings may hold another with the key."""
    text = (
        '[llms.a]\nprovider = "openai"  # token: commented-secret\n'
        'extra_headers = { Session = "abc-header-value", X-Ref = "Bearer ${NAMED}" }\n'
        '[stores.b]\nprovider = "chromadb-wrapper"\nurl = "http://x"\n'
        'auth = { type = "api-key", key = "plain-nested-value" }\n'
    )
    seen = mask_secrets(text, parse_document(text, "flexchat.toml"), plugins, Mask())
    assert "secret" not in seen
    assert "-value" not in seen
    assert "${NAMED}" in seen
    assert 'type = "api-key"' in seen


def test_in_a_text_that_cannot_be_read_secrets_are_masked_wherever_they_are_assigned():
    seen = shown_unread('{"a": {"credentials": "one-value", "n": 1, "x": {"cookie": "two-value"}}, [', Mask())
    assert "-value" not in seen
    assert '"n": 1' in seen
    assert "-value" not in shown_unread("x = { passphrase = 'three-value', passwd=four-value } [", Mask())
    assert shown_unread('api_key = "${KEY}" [', Mask()).startswith('api_key = "${KEY}"')


def test_a_key_named_like_a_secret_that_holds_an_address_decides_whom_secrets_go_to():
    """The token_url of OAuth is sent the client's secret."""
    entry = {"provider": "x", "token_url": "https://a.example/token", "client_secret": "the-secret"}
    file = {"llms": {"a": entry}}
    place = ("llms", "a", "client_secret")
    secrets = {("llms", "a", name): entry[name] for name in ("token_url", "client_secret")}
    masked = {"llms": {"a": {**entry, **dict.fromkeys(("token_url", "client_secret"), MASKED)}}}
    moved = {"llms": {"a": {**masked["llms"]["a"], "token_url": "https://evil.example/token"}}}
    assert same_target(masked, file, place, secrets)
    assert not same_target(moved, file, place, secrets)


@pytest.mark.parametrize(
    "line", ["a" * 300_000, "a-" * 100_000 + " b", '"' + "a" * 300_000, "2a_token = four-secret, " * 5_000]
)
def test_a_long_line_that_cannot_be_read_takes_no_longer_than_it_is_long(line):
    """Going back over every letter for every letter would hold the server for hours."""
    assert "secret" not in shown_unread(line + "\n[", str)


def test_the_credentials_of_a_tool_source_are_secret_by_any_name(plugins):
    """Of an OpenAPI document by its schemes' names, of an MCP server as a token."""
    text = """
[[tools.openapi]]
document = "shop.json"
auth = { shop = "plain-words-1" }

[[tools.mcp]]
url = "https://x.example/mcp"
auth = { bearer = "plain-words-2" }
"""
    data = parse_document(text, "f.toml").data

    assert secret_places(data, plugins, Mask()) == {
        ("tools", "openapi", 0, "auth", "shop"): "plain-words-1",
        ("tools", "mcp", 0, "auth", "bearer"): "plain-words-2",
    }
