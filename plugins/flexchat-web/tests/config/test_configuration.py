"""The configuration over HTTP: shown, checked, replaced whole or not at all; what must stay by hand stays."""

import json
import os
import stat
import tomllib

import pytest
from flexchat.config.document import parse_document
from flexchat_cli.stored_keys import store_key

SECRET = "sk-live-abcdefghijkl"
TOML = f"""\
# Ours.
[llms.ai]
provider = "openai"
api_key = "{SECRET}"  # keep
base_url = "http://127.0.0.1:9/v1"
default_model = "m1"

[llms.env]
provider = "openai"
api_key = "${{SOME_KEY}}"
default_model = "m2"

[[responses]]
llm = "ai"
prompt = "Be kind."
"""


@pytest.fixture
def file(config_file, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "env-secret-value")
    config_file.write_text(TOML)
    config_file.chmod(0o640)
    return config_file


@pytest.fixture
async def api(file, new_client):
    return await new_client()


async def shown(api):
    return (await api.get("/api/config")).json()


async def put(api, text, version=None):
    version = (await shown(api))["version"] if version is None else version
    return await api.put("/api/config", json={"text": text, "version": version})


async def test_the_text_is_shown_without_its_secrets(api):
    told = await shown(api)
    assert told["text"] == TOML.replace(SECRET, "********")
    assert (told["name"], told["format"], told["editable"], told["problems"]) == ("flexchat.toml", "toml", True, [])
    assert told["notes"], "a secret in the file is worth a note"


async def test_a_saved_text_keeps_the_secrets_behind_its_masks(api, file):
    """Everything else is as it was posted, comments too; the file's permissions stay."""
    text = (await shown(api))["text"].replace("Be kind.", "Be brief.").replace('"m1"', '"m9"')
    answer = await put(api, text)
    assert answer.status_code == 200, answer.text
    assert file.read_text() == TOML.replace("Be kind.", "Be brief.").replace('"m1"', '"m9"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert answer.json()["status"]["ai_providers"] == ["ai", "env"]
    assert answer.json()["version"] == (await shown(api))["version"]
    assert sorted(each.name for each in file.parent.iterdir()) == ["flexchat.toml"], "no temporary file is left"


async def test_comments_with_secrets_come_back_whole_but_never_as_values(file, new_client):
    """A masked comment is exchanged only where it is one: in a value it would be read by a model."""
    file.write_text(
        TOML.replace("# Ours.", '# api_key = "old-secret-value"').replace("# keep", "# was sk-older-secret")
    )
    api = await new_client()
    text = (await shown(api))["text"]
    assert "secret" not in text
    assert (await put(api, text.replace("Be kind.", "Hi."))).status_code == 200
    assert '# api_key = "old-secret-value"' in file.read_text()
    assert "# was sk-older-secret" in file.read_text()
    line = text.split("\n")[0]
    assert (await put(api, text.replace('"Be kind."', f"'''\n{line}\n'''"))).status_code == 200
    assert tomllib.loads(file.read_text())["responses"][0]["prompt"] == f"{line}\n"


async def test_a_link_goes_on_pointing_to_the_file(file, tmp_path, new_client):
    link = tmp_path / "sub" / "flexchat.toml"
    link.parent.mkdir()
    link.symlink_to(file)
    api = await new_client(link)
    assert (await put(api, (await shown(api))["text"].replace("Be kind.", "Hi."))).status_code == 200
    assert link.is_symlink()
    assert "Hi." in file.read_text()


async def test_who_saves_over_anothers_change_is_told(api, file):
    version = (await shown(api))["version"]
    file.write_text(TOML + "\n# by hand\n")
    answer = await put(api, TOML, version)
    assert answer.status_code == 409
    assert file.read_text().endswith("# by hand\n")


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('llm = "ai"', 'llm = "aii"', "responses[0].llm"),
        ('[llms.ai]\nprovider = "openai"', '[llms.ai]\nprovider = "opnai"', "llms.ai.provider"),
        ("[llms.ai]", "[llms.ai", ""),
        ('prompt = "Be kind."', "prompt = 3", "responses[0].prompt"),
    ],
)
async def test_a_text_with_problems_is_422_with_their_lines_and_changes_nothing(api, file, old, new, path):
    answer = await put(api, TOML.replace(old, new))
    assert answer.status_code == 422
    assert path in [problem["path"] for problem in answer.json()["problems"]]
    assert all(problem["line"] for problem in answer.json()["problems"])
    assert file.read_text() == TOML


STEALING = [
    ('base_url = "http://127.0.0.1:9/v1"', 'base_url = "https://evil.example/v1"', "written anew"),
    ("9/v1", "10/v1", "another port"),
    ('base_url = "http://127.0.0.1:9/v1"\n', "", "no base_url: the usual one"),
    ('[llms.ai]\nprovider = "openai"', '[llms.ai]\nprovider = "ollama"', "another provider"),
    ('# Ours.\n', '[llms.my]\nprovider = "openai"\nbase_url = "http://evil"\napi_key = "********"\n', "another entry"),
    ('prompt = "Be kind."', 'prompt = "********"', "another place"),
    ('default_model = "m1"', 'default_model = "m1"\norganization = "********"', "another key"),
    ('default_model = "m1"', 'extra_headers = { X-To = "evil" }', "headers"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "_"), STEALING, ids=[case[2] for case in STEALING])
async def test_a_mask_is_exchanged_only_for_the_same_secret_sent_to_the_same_address(api, file, old, new, _):
    """Else a changed address would carry the key to somebody else."""
    answer = await put(api, TOML.replace(SECRET, "********").replace(old, new))
    assert answer.status_code == 422
    assert "write" in answer.json()["problems"][0]["text"]
    assert file.read_text() == TOML


REFERENCES = [
    ("Be kind.", "Say ${SOME_KEY}"),
    ("Be kind.", "Say ${SOME_KEY:-x}"),
    ("Be kind.", "Say ${PATH}"),
    ('"${SOME_KEY}"', '"${OTHER_KEY}"'),
    ('[llms.env]\nprovider = "openai"', '[llms.env]\nprovider = "openai"\nbase_url = "http://evil.example"'),
    ("http://127.0.0.1:9", "http://${SOME_KEY}.evil.example"),
]


@pytest.mark.parametrize(("old", "new"), REFERENCES)
async def test_the_environment_is_used_only_where_the_file_uses_it(api, file, old, new):
    """Flowise and LiteLLM: a posted ${KEY} was sent to a posted address."""
    answer = await put(api, TOML.replace(SECRET, "********").replace(old, new))
    assert answer.status_code == 422
    assert "--allow-env" in answer.text or "write it again" in answer.text
    assert "env-secret-value" not in answer.text
    assert file.read_text() == TOML


async def test_a_stored_key_does_not_follow_a_posted_configuration(file, new_app, client_of, monkeypatch):
    """flexchat keys set openai: neither by its name, nor because a posted service has no key of its own."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    store_key("OPENAI_API_KEY", "sk-stored-0123456789")
    app = new_app()
    api = client_of(app)
    elsewhere = '\n[llms.evil]\nprovider = "openai"\nbase_url = "https://evil.example/v1"\n'

    answer = await put(api, (await shown(api))["text"] + elsewhere + 'api_key = "${OPENAI_API_KEY}"\n')
    assert (answer.status_code, "OPENAI_API_KEY" in answer.text) == (422, True)
    answer = await put(api, (await shown(api))["text"] + elsewhere)
    assert answer.status_code == 200
    async with app.serving.chat() as chat:
        assert "sk-stored" not in repr(vars(chat.llms["evil"].provider))
        assert chat.mask("sk-stored-0123456789") == "***"


async def test_the_operator_can_allow_a_variable(file, new_client, monkeypatch):
    monkeypatch.setenv("SHOWN", "shown-value")
    api = await new_client(allow_env=frozenset({"SHOWN"}))
    answer = await put(api, TOML.replace(SECRET, "********").replace("Be kind.", "Say ${SHOWN}"))
    assert answer.status_code == 200


async def test_rules_with_references_may_change_places(file, new_client):
    file.write_text(TOML.replace("Be kind.", "Use ${SOME_KEY}."))
    api = await new_client()
    first = '[[responses]]\nllm = "env"\nmatch = { topic = "x" }\n\n'
    text = (await shown(api))["text"]
    assert (await put(api, text.replace("[[responses]]", first + "[[responses]]"))).status_code == 200


BY_HAND = [
    '[[tools.registry]]\nname = "t"\ndescription = "d"\nparameters = { type = "object" }\n'
    'implementation = { type = "python", function = "os:system" }\n',
    '[[tools.registry]]\nname = "t"\ndescription = "d"\nparameters = { type = "object" }\n'
    'implementation = { type = "mcp", command = "sh" }\n',
    '[[tools.registry]]\nname = "t"\ndescription = "d"\nparameters = { type = "object" }\n'
    'type = "python"\nfunction = "os:system"\n',  # the flat form of the Node original
    '[[tools.registry]]\nname = ["t"]\nimplementation = { type = "python", function = "os:system" }\n',
    '[[tools.registry]]\nname = "t"\ndescription = "d"\nparameters = { type = "object" }\n'
    'implementation = { type = "http", url = "http://127.0.0.1:9/", headers = { A = "b" } }\n',
    '[[tools.registry]]\nname = "t"\ndescription = "d"\nparameters = { type = "object" }\n'
    'type = "http"\nurl = "http://127.0.0.1:9/"\n',
    '[network]\nallow = ["127.0.0.0/8"]\n',
    '[network]\ndomains = ["evil.example"]\n',
    '[llms.new]\nprovider = "langchain"\nclass_path = "os:system"\n',
    '[llms.new]\nprovider = "LangChain"\nclass_path = "langchain_ollama:ChatOllama"\n',
    '[plugins]\nblock = ["openai"]\n',
    '[validation]\nfiles = ["/etc/passwd"]\n',
    '[[tools.listed]]\nfile = "/etc/tools.json"\n',
    '[[tools.openapi]]\ndocument = "http://169.254.169.254/"\n',
    '[tools]\nlock = "/tmp/x.lock"\n',
    '[validation]\nstore = "/tmp/x.db"\n',
    '[stores.d]\nprovider = "sqlite"\npath = "/etc/x.db"\n',
    '[stores.d]\nprovider = "memory"\npaths = ["/etc/passwd"]\n',
    '[conversations]\nprovider = "sqlite"\npath = "/tmp/other.db"\n',
    '[topic]\nprompt_file = "flexchat.toml"\n',
]


@pytest.mark.parametrize("more", BY_HAND)
async def test_code_and_files_are_named_by_hand_only(api, file, more):
    """CVE-2026-40933 and its like: a posted configuration ran commands."""
    answer = await put(api, TOML.replace(SECRET, "********") + more)
    assert answer.status_code == 422
    assert "by hand" in answer.text
    assert file.read_text() == TOML
    posted = {**tomllib.loads(TOML.replace(SECRET, "********")), **tomllib.loads(more)}
    answer = await api.post("/api/config/reload", json=posted)
    assert answer.status_code == 400
    assert "by hand" in answer.text


MCP = """
[[tools.mcp]]
name = "desk"
command = ["desk-server"]
env = { DESK_TOKEN = "desk-secret-0123456789" }

[[tools.mcp]]
name = "far"
url = "https://mcp.example.com/mcp"
headers = { X-Key = "far-secret-0123456789" }
"""
OTHER_MCP = [
    ('["desk-server"]', '["sh", "-c", "id"]'),
    ('["desk-server"]', '["desk-server"]\nargs = ["--evil"]'),
    ('["desk-server"]', '["desk-server"]\ncwd = "/tmp"'),
    ('["desk-server"]', '["desk-server"]\ntrust = true'),
    ('["desk-server"]', '["desk-server"]\neffects = { "*" = "read" }'),
    ("DESK_TOKEN", "LD_PRELOAD"),
    ("env = {", 'env = { PATH = "/tmp",'),
    ("mcp.example.com", "evil.example.com"),
    ("headers = {", 'headers = { Host = "evil",'),
    ('.com/mcp"', '.com/mcp"\ntransport = "sse"'),
    ('.com/mcp"', '.com/mcp"\nauth = { oauth = true }'),
    ('name = "far"', 'name = "near"'),
    ('name = "far"', 'name = "far"\nprefix = "calc"'),
    ("[[tools.mcp]]\nname", '[[tools.mcp]]\nname = "new"\ncommand = "sh"\n[[tools.mcp]]\nname'),
    ("[[tools.mcp]]", "[[tools.MCP]]"),
    (MCP[MCP.index("[[tools.mcp]]", 5) :].replace("far-secret-0123456789", "********"), ""),
]


@pytest.mark.parametrize(("was", "posted"), OTHER_MCP)
async def test_servers_are_added_and_changed_by_hand_only(file, new_client, was, posted):
    """Command, env, cwd, url, headers, trust: none comes from a request, saved or in memory, whoever may edit."""
    file.write_text(TOML + MCP)
    api = await new_client()
    text = (await shown(api))["text"]
    assert "-secret-0123456789" not in text
    other = text.replace(was, posted)
    assert other != text

    saved = await put(api, other)
    in_memory = await api.post("/api/config/reload", json=tomllib.loads(other))

    assert (saved.status_code, in_memory.status_code) == (422, 400)
    assert "by hand" in saved.text
    assert "by hand" in in_memory.text
    assert file.read_text() == TOML + MCP
    assert (await put(api, text.replace("Be kind.", "Be brief."))).status_code == 200
    assert MCP in file.read_text()


async def test_what_was_written_by_hand_may_stay_and_go(file, new_client, monkeypatch):
    (file.parent / "by_hand_tools.py").write_text("def double(x: int) -> int:\n    return 2 * x\n")
    monkeypatch.syspath_prepend(file.parent)
    tool = (
        '[[tools.registry]]\nname = "t"\ndescription = "d"\n'
        'parameters = { type = "object", properties = { x = { type = "integer" } } }\n'
        'implementation = { type = "python", function = "by_hand_tools:double" }\n'
    )
    file.write_text(TOML + tool)
    api = await new_client()
    text = (await shown(api))["text"]
    assert (await put(api, text.replace("Be kind.", "Hi."))).status_code == 200
    assert (await put(api, text.replace("by_hand_tools:double", "os:system"))).status_code == 422
    assert (await put(api, text.partition("[[tools")[0])).status_code == 200


HTTP_TOOL = """
[network]
allow = ["127.0.0.1:9"]

[[tools.registry]]
name = "t"
description = "d"
parameters = { type = "object", properties = { q = { type = "string" } } }

[tools.registry.implementation]
type = "http"
url = "http://127.0.0.1:9/{q}"
headers = { X-Tenant = "tenant-secret-1" }
auth = { type = "api_key", name = "X-Key", api_key = "value-secret-2" }
"""


async def test_an_http_tool_written_by_hand_may_stay_as_it_is(file, new_client):
    """Where it goes, what it sends and what it may reach do not change here; its keys are not shown."""
    file.write_text(TOML + HTTP_TOOL)
    api = await new_client()
    text = (await shown(api))["text"]
    assert "tenant-secret-1" not in text
    assert "value-secret-2" not in text
    assert (await put(api, text.replace("Be kind.", "Hi."))).status_code == 200
    assert "value-secret-2" in file.read_text()
    text = (await shown(api))["text"]
    for before, after in (
        ("127.0.0.1:9/{q}", "127.0.0.1:8/{q}"),
        ("X-Tenant", "X-Other"),
        ('name = "X-Key"', 'name = "X-Evil"'),
        ('allow = ["127.0.0.1:9"]', 'allow = ["127.0.0.1"]'),
        ('type = "http"', 'type = "http"\nmethod = "DELETE"'),
    ):
        assert before in text
        answer = await put(api, text.replace(before, after))
        assert (answer.status_code, "by hand" in answer.text) == (422, True)


async def test_a_class_written_by_hand_may_stay_as_it_is(file, new_client):
    """A LangChain class is imported, and many read keys of the environment: neither it nor its settings change here."""
    settings = 'settings = { base_url = "http://127.0.0.1:9", api_key = "a-secret-of-theirs" }\n'
    entry = '[llms.chain]\nprovider = "langchain"\nclass_path = "langchain_ollama:ChatOllama"\ndefault_model = "m"\n'
    file.write_text(entry + settings + TOML)
    api = await new_client()
    text = (await shown(api))["text"]
    assert "a-secret-of-theirs" not in text
    assert (await put(api, text.replace("Be kind.", "Hi."))).status_code == 200
    assert (await put(api, text.replace('default_model = "m"', 'default_model = "n"'))).status_code == 200
    assert "a-secret-of-theirs" in file.read_text()
    for changed in (
        text.replace("langchain_ollama:ChatOllama", "os:system"),
        text.replace('base_url = "http://127.0.0.1:9",', 'base_url = "http://evil.example",'),
        text.replace('base_url = "http://127.0.0.1:9",', ""),
        text.replace("[llms.chain]", "[llms.other]"),
    ):
        answer = await put(api, changed)
        assert (answer.status_code, "by hand" in answer.text) == (422, True)
    assert (await put(api, text[text.index("# Ours.") :])).status_code == 200


async def test_validate_says_what_is_wrong_with_lines_in_plain_json(api):
    """The original's form: the same body with 200 and 400."""
    answer = await api.post("/api/config/validate", json={"text": TOML.replace(SECRET, "********")})
    assert (answer.status_code, answer.json()["valid"], answer.json()["errors"]) == (200, True, [])
    answer = await api.post("/api/config/validate", json={"text": TOML.replace('llm = "ai"', 'llm = "x"')})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["valid"] is False
    assert [(error["path"], error["line"]) for error in answer.json()["errors"]] == [("responses[0].llm", 14)]
    answer = await api.post("/api/config/validate", json={"config": {"llms": {}}})
    assert answer.status_code == 400
    answer = await api.post("/api/config/validate", json={"config": tomllib.loads(TOML)})
    assert answer.json()["valid"] is True


async def test_validate_warns_of_cases_and_models_that_cannot_be_used(api):
    """They keep nobody from serving."""
    case = '[[validation.cases]]\nname = "c"\nmessage = "m"\ncalls = [{ tool = "none" }]\n'
    text = TOML.replace(SECRET, "********") + f'\n[validation]\nmodels = ["x/y"]\n{case}'
    answer = (await api.post("/api/config/validate", json={"text": text})).json()
    assert (answer["valid"], answer["errors"]) == (True, [])
    paths = [warning["path"] for warning in answer["warnings"]]
    assert {"validation.cases[0].calls[0].tool", "validation.models[0]"} <= {*paths}


async def test_validate_writes_nothing(api, file):
    await api.post("/api/config/validate", json={"text": TOML + "# x"})
    assert file.read_text() == TOML
    assert [*file.parent.iterdir()] == [file]


async def test_edit_returns_a_changed_text_and_writes_nothing(api, file):
    change = {"path": ["llms", "ai", "default_model"], "value": "m3"}
    answer = await api.post("/api/config/edit", json={"text": TOML, "format": "toml", "changes": [change]})
    assert answer.json()["text"] == TOML.replace('"m1"', '"m3"')
    assert file.read_text() == TOML
    answer = await api.post("/api/config/edit", json={"text": "a = ", "format": "toml", "changes": [change]})
    assert (answer.status_code, answer.json()["problems"][0]["line"]) == (422, 1)


async def test_diff_shows_what_changes_and_no_secret(api):
    text = TOML.replace(SECRET, "brand-new-secret").replace("Be kind.", "Be brief.")
    told = (await api.post("/api/config/diff", json={"text": text})).json()
    assert '-prompt = "Be kind."' in told["diff"]
    assert '+prompt = "Be brief."' in told["diff"]
    assert "secret" not in told["diff"]
    assert told["secrets"] == ["llms.ai.api_key"]
    assert (await api.post("/api/config/diff", json={"text": TOML.replace(SECRET, "********")})).json()["diff"] == ""


async def test_it_is_told_whether_the_file_is_what_serves(api, file):
    """One that was changed, and one that cannot be read, is not."""
    assert (await shown(api))["in_force"]
    file.write_text(TOML + "\n# another comment\n")
    assert (await shown(api))["in_force"], "comments are no part of it"
    file.write_text(TOML + "\n[limits]\nturn_timeout_ms = 5000\n")
    assert not (await shown(api))["in_force"]
    await api.post("/api/config/reload", json={})
    assert (await shown(api))["in_force"]
    file.write_text("[[")
    assert not (await shown(api))["in_force"]


async def test_reload_reads_the_file_again(api, file):
    file.write_text(TOML.replace("llms.env", "llms.other"))
    answer = await api.post("/api/config/reload")
    assert answer.json()["status"]["ai_providers"] == ["ai", "other"]
    file.write_text("[")
    answer = await api.post("/api/config/reload", json={})
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    told = await shown(api)
    assert told["problems"], "the page says that the file is broken"
    assert told["text"] == "["


async def test_a_broken_file_can_be_mended_from_the_page(api, file):
    file.write_text(TOML.replace("[[responses]]", "[[responses"))
    assert (await api.post("/api/config/reload")).status_code == 400
    told = await shown(api)
    assert SECRET not in told["text"]
    answer = await put(api, told["text"].replace("[[responses", "[[responses]]"))
    assert answer.status_code == 200, answer.text
    assert SECRET in file.read_text()
    assert (await shown(api))["problems"] == []


async def test_a_posted_configuration_serves_in_memory_and_expands_nothing(api, file):
    """The original's reload; ${ENV} in it stays as it is written."""
    posted = tomllib.loads(TOML.replace(SECRET, "********"))
    posted["llms"]["new"] = {"provider": "ollama", "default_model": "${SOME_KEY}"}
    answer = await api.post("/api/config/reload", json=posted)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"]["ai_providers"] == ["ai", "env", "new"]
    assert file.read_text() == TOML
    told = await shown(api)
    assert told["editable"] is False
    assert "${SOME_KEY}" in told["text"]
    assert SECRET not in told["text"]
    assert (await put(api, TOML)).status_code == 409
    await api.post("/api/config/reload")
    assert (await shown(api))["editable"] is True


@pytest.fixture
async def split(file, new_client):
    """A server whose configuration is in several files."""
    (file.parent / "more.yaml").write_text("responses:\n- llm: ai\n  prompt_file: p.md\n")
    (file.parent / "p.md").write_text("From a file.")
    file.write_text(
        'include = ["more.yaml"]\n' + TOML.replace('prompt = "Be kind."', 'prompt_file = "p.md"\nmatch.topic = "x"')
    )
    return await new_client()


async def test_a_problem_in_another_file_names_it_and_no_line_of_the_text(split, file):
    """The text that is shown or posted has no such line, and no such place."""
    (file.parent / "more.yaml").write_text("responses:\n- llm: aii\n  prompt_file: p.md\n")
    expected = {"path": "", "line": None}
    posted = (await shown(split))["text"]
    answers = [
        (await split.post("/api/config/validate", json={"text": posted})).json()["errors"],
        (await put(split, posted)).json()["problems"],
        (await split.post("/api/config/reload")).json()["problems"],
        (await shown(split))["problems"],
    ]
    for told in answers:
        assert [{"path": each["path"], "line": each["line"]} for each in told] == [expected]
        assert told[0]["text"].startswith("more.yaml:2: responses[1].llm: no LLM is called 'aii'")
        assert str(file.parent) not in str(told)


async def test_a_file_with_others_is_shown_and_saved_as_it_is(split, file):
    """What they brought serves, and is not in the text."""
    told = await shown(split)
    assert (told["others"], told["in_force"]) == (["p.md", "more.yaml"], True)
    assert len(told["config"]["responses"]) == 1
    text = told["text"].replace('topic = "x"', 'topic = "y"')

    assert (await put(split, text)).status_code == 200
    assert file.read_text() == text.replace("********", SECRET)
    assert (await shown(split))["others"] == ["p.md", "more.yaml"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["more.yaml"]', '["more.yaml", "other.toml"]'),
        ('["more.yaml"]', "[]"),
        ('prompt_file = "p.md"', 'prompt_file = "flexchat.toml"'),
        ('prompt_file = "p.md"', 'prompt_file = "../x"'),
    ],
)
async def test_no_request_names_another_file_to_be_read(split, file, old, new):
    """Neither with a text nor with tables."""
    told, before = await shown(split), file.read_text()

    answer = await put(split, told["text"].replace(old, new))
    assert (answer.status_code, "by hand" in answer.text, file.read_text()) == (422, True, before)
    posted = tomllib.loads(told["text"].replace(old, new))
    answer = await split.post("/api/config/reload", json=posted)
    assert answer.status_code == 400
    assert "by hand" in answer.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[llms.env]", '[llms.theirs]\nbase_url = "http://127.0.0.1:6/v1"\n\n[llms.env]'),
        ("http://127.0.0.1:9/v1", "http://127.0.0.1:6/v1"),
        ('llm = "ai"\nprompt_file', 'llm = "env"\nprompt_file'),
    ],
    ids=["an address beside the key", "another address for a rule's texts", "a prompt for another model"],
)
@pytest.mark.parametrize("readable", [True, False])
async def test_what_other_files_hold_goes_to_nobody_else(file, new_client, old, new, readable):
    """Neither a key nor a text with values of the environment; whether the server's own file is broken or not."""
    (file.parent / "more.yaml").write_text(
        f"llms: {{theirs: {{provider: openai, api_key: {SECRET}, default_model: m}}}}\n"
        "responses:\n- llm: ai\n  prompt: ${SOME_KEY}\n"
    )
    (file.parent / "p.md").write_text("Use ${SOME_KEY}.")
    text = 'include = ["more.yaml"]\n' + TOML
    text = text.replace('prompt = "Be kind."', 'prompt_file = "p.md"\nmatch.topic = "x"')
    file.write_text(text)
    api = await new_client()
    if not readable:
        file.write_text("broken [")
    posted = text.replace(SECRET, "sk-mine-mine-mine").replace(old, new, 1)

    answer = await api.post("/api/config/validate", json={"text": posted})

    assert (answer.status_code, "by hand" in answer.text) == (400, True), answer.text
    assert (await put(api, posted)).status_code == 422


async def test_yaml_files_are_as_good(tmp_path, new_client, monkeypatch):
    """With their comments."""
    monkeypatch.setenv("SOME_KEY", "x")
    file = tmp_path / "flexchat.yaml"
    text = f"# Ours.\nllms:\n  ai: {{provider: openai, api_key: {SECRET}, default_model: m}}\n"
    text += "responses:\n- llm: ai # first\n"
    file.write_text(text)
    api = await new_client(file)
    told = await shown(api)
    assert (told["format"], told["text"]) == ("yaml", text.replace(SECRET, "'********'"))
    assert (await put(api, told["text"].replace("first", "only"))).status_code == 200
    assert file.read_text() == told["text"].replace("first", "only").replace("********", SECRET)


@pytest.mark.parametrize("format_", ["toml", "yaml", "json"])
async def test_export_has_no_secret(api, format_):
    answer = await api.get(f"/api/config/export?format={format_}")
    assert SECRET not in answer.text
    assert "attachment" in answer.headers["content-disposition"]
    data = parse_document(answer.text, f"x.{format_}").data
    assert data == tomllib.loads(TOML.replace(SECRET, "********"))


async def test_json_files_are_as_good(tmp_path, new_client, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "x")
    file = tmp_path / "flexchat.json"
    file.write_text(json.dumps(tomllib.loads(TOML), indent=2))
    api = await new_client(file)
    text = (await shown(api))["text"]
    assert (await put(api, text.replace("Be kind.", "Hi."))).status_code == 200
    assert json.loads(file.read_text()) == tomllib.loads(TOML.replace("Be kind.", "Hi."))


async def test_the_demo_is_shown_and_cannot_be_saved(new_client):
    tables = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "rehearsal"}],
    }
    api = await new_client(tables)
    told = await shown(api)
    assert (told["name"], told["editable"], tomllib.loads(told["text"])) == ("demo", False, tables)
    assert (await put(api, told["text"])).status_code == 409


@pytest.mark.parametrize("path", ["validate", "edit", "diff", "reload"])
async def test_without_the_right_to_edit_nothing_is_changed(file, new_client, path):
    api = await new_client(edit=False)
    assert (await api.post(f"/api/config/{path}", json={})).status_code == 403
    assert (await put(api, TOML)).status_code == 403
    assert (await shown(api))["editable"] is False
    assert (await api.get("/api/config/schema")).json()["title"] == "FlexChat configuration"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_that_cannot_be_written_is_told(api, file):
    file.parent.chmod(0o500)
    try:
        answer = await put(api, TOML.replace(SECRET, "********"))
    finally:
        file.parent.chmod(0o700)
    assert answer.status_code == 409
    assert "cannot be written" in answer.json()["detail"]


async def test_a_rules_references_do_not_go_to_another_fallback(file, new_client):
    """What answers while the rule's llm does not is sent the same prompt."""
    other = '[llms.evil]\nprovider = "openai"\nbase_url = "http://evil/v1"\ndefault_model = "m"\n'
    rule = '[[responses]]\nllm = "ai"\nprompt = "Use ${SOME_KEY}."\n'
    file.write_text(TOML.replace('[[responses]]\nllm = "ai"\nprompt = "Be kind."\n', rule))
    api = await new_client()
    text = (await shown(api))["text"]
    evil = rule + 'fallback = ["evil"]\n'
    for posted in (text.replace(rule, evil), text.replace(rule, '[[responses]]\nllm = "env"\n\n' + evil)):
        assert (await put(api, other + posted)).status_code == 422
    assert (await put(api, text.replace("[[responses]]", '[[responses]]\nllm = "env"\n\n[[responses]]'))).is_success


async def test_a_reference_in_a_text_for_any_model_stays_only_while_all_services_stay(file, new_client):
    """Who finds the topic may be chosen anew, and is sent the prompt."""
    file.write_text(TOML + '[topic]\nprompt = "Use ${SOME_KEY}. {{userMessage}}"\n')
    api = await new_client()
    text = (await shown(api))["text"]
    evil = '[llms.evil]\nprovider = "openai"\nbase_url = "http://evil/v1"\ndefault_model = "m"\n'
    for posted in (text.replace("9/v1", "10/v1").replace("********", "a-key-of-my-own"), evil + text):
        answer = await put(api, posted)
        assert answer.status_code == 422
        assert [problem["path"] for problem in answer.json()["problems"]] == ["topic.prompt"]
    assert (await put(api, text.replace("Be kind.", "Be short."))).is_success


async def test_what_serves_in_memory_gives_no_right_to_the_environment(api):
    """A reference that came with one request would else be replaced by the next."""
    tables = {"llms": {"x": {"provider": "openai", "api_key": "${SOME_KEY}", "default_model": "m"}}}
    assert (await api.post("/api/config/reload", json={**tables, "responses": [{"llm": "x"}]})).is_success
    text = (await shown(api))["text"]
    for name in ("SOME_KEY", "NO_SUCH_KEY"):
        answer = await api.post("/api/config/validate", json={"text": text.replace("SOME_KEY", name)})
        assert answer.status_code == 400
        assert f"{name} from the environment may not be used here" in answer.text


async def test_a_file_that_is_broken_by_hand_meanwhile_is_shown_and_exported_without_its_secrets(api, file):
    """Numbers without quotes are secrets, too; a date is no JSON."""
    broken = TOML + "api_key = 1234567890\nd = 2020-01-01\ntoken_limit = 500\n"
    file.write_text(broken)
    for path in ("/api/config", "/api/config/export?format=json", "/api/config/export?format=toml"):
        answer = await api.get(path)
        assert answer.is_success
        assert "1234567890" not in answer.text
        assert "2020-01-01" in answer.text
        assert "500" in answer.text
    mended = (await shown(api))["text"].replace("d = 2020-01-01\n", "").replace("token_limit = 500\n", "")
    assert [p["path"] for p in (await put(api, mended)).json()["problems"]] == ["responses[0].api_key"]


async def test_a_reference_stays_beside_masks_of_the_same_entry(file, new_client):
    """An address with a password and a header are masked; the key beside them comes from the environment."""
    entry = 'base_url = "http://user:pass-word-1@127.0.0.1:9/v1"\nextra_headers = { X-Api = "literal-header" }\n'
    file.write_text(TOML.replace('[llms.env]\nprovider = "openai"\n', f'[llms.env]\nprovider = "openai"\n{entry}'))
    api = await new_client()
    text = (await shown(api))["text"]
    assert "pass-word-1" not in text
    assert (await put(api, text.replace("Be kind.", "Be short."))).status_code == 200
    assert entry in file.read_text()
    moved = text.replace('base_url = "********"', 'base_url = "http://evil.example"')
    assert (await put(api, moved)).status_code == 422


LARGE = '[llms.robot]\nprovider = "rehearsal"\n' + '# a comment\n[[responses]]\nllm = "robot"\nmodel = "r1"\n' * 400


@pytest.mark.slow
async def test_a_long_configuration_is_worked_on_apart_with_the_same_answers(client, monkeypatch):
    """Checked, changed, compared: in another process as in this one."""
    from flexchat_web.config import configuration

    change = {"path": ["responses", 0, "model"], "value": "r2"}
    asked = [
        ("validate", {"text": LARGE, "format": "toml"}),
        ("validate", {"text": LARGE + "x = 1\n", "format": "toml"}),
        ("validate", {"config": {"llms": {f"l{n}": {"provider": "scriptd"} for n in range(400)}}}),
        ("edit", {"text": LARGE, "format": "toml", "changes": [change]}),
        ("edit", {"text": LARGE + "=", "format": "toml", "changes": [change]}),
        ("diff", {"text": LARGE}),
    ]

    async def answers():
        found = [await client.post(f"/api/config/{path}", json=body) for path, body in asked]
        return [(answer.status_code, answer.json()) for answer in found]

    apart = await answers()
    monkeypatch.setattr(configuration, "QUICK", 10**9)

    assert apart == await answers()
    assert [status for status, _ in apart] == [200, 400, 400, 200, 422, 200]
