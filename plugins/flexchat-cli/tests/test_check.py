"""flexchat check and flexchat config schema."""

import json

import jsonschema
import pytest

BROKEN = '[llms.a]\nprovider = "scripted"\n\n[[responses]]\nllm = "b"\nmodle = "x"\n'


def test_a_fine_file_is_said_to_be_fine_with_what_is_in_it(run, script):
    script('{ text = "-" }')

    ran = run("check")

    assert (ran.status, ran.out) == (0, "flexchat.toml is fine: 1 llm, 1 tool, 1 rule\n")


UNUSABLE = '{ name = "odd", parameters = { type = "odd" }, implementation = { type = "mock", responses = [] } }'


@pytest.mark.parametrize(
    ("tools", "count"),
    [
        (
            f'on_error = "leave out"\nregistry = [{{ name = "echo" }}, {{ name = "echo" }}, {UNUSABLE}]',
            "1 tool (1 left out)",
        ),
        ('enabled = false\nregistry = [{ name = "echo" }]', "0 tools (1 switched off)"),
        ("registry = []", "0 tools"),
    ],
)
def test_only_tools_that_can_be_used_are_counted(run, script, tools, count):
    path = script('{ text = "-" }', tools=tools)
    path.write_text(path.read_text().replace("enabled = true\nenabled", "enabled"))

    assert run("check").out.splitlines()[-1] == f"flexchat.toml is fine: 1 llm, {count}, 1 rule"


def test_every_problem_is_a_line_with_file_and_line_and_the_status_is_2(run, tmp_path):
    (tmp_path / "chat.toml").write_text(BROKEN)

    ran = run("check", "chat.toml")

    assert ran.status == 2
    *problems, verdict = ran.out.splitlines()
    assert all(line.startswith("chat.toml:") for line in problems)
    assert verdict == f"chat.toml cannot be used: {len(problems)} problems"


def test_notes_are_told_and_are_no_problem(run, script):
    path = script('{ text = "-" }')
    path.write_text(path.read_text() + '[[responses]]\nllm = "script"\nmodel = "never reached"\n')

    ran = run("check")

    assert ran.status == 0
    assert ran.out.startswith("note: flexchat.toml:")


def test_check_as_json(run, tmp_path):
    (tmp_path / "chat.toml").write_text(BROKEN)

    ran = run("check", "--json", "chat.toml")

    found = json.loads(ran.out)
    assert ran.status == 2
    assert found["usable"] is False
    assert {"source", "line", "path", "text"} == found["problems"][0].keys()


@pytest.mark.parametrize("text", ["[[[", '{ "json": true }'])
def test_a_file_that_cannot_be_read_is_a_problem_too(run, tmp_path, text):
    (tmp_path / "chat.toml").write_text(text)

    ran = run("check", "chat.toml")

    assert ran.status == 2
    assert ran.out.startswith("chat.toml:1: ")


def test_nothing_to_check_is_a_usage_error(run):
    ran = run("check")

    assert ran.status == 2
    assert "flexchat init" in ran.err


def test_the_schema_is_a_schema_and_knows_the_installed_plugins(run, script):
    """What check accepts the schema accepts, and what it refuses for an unknown key the schema refuses."""
    schema = json.loads(run("config", "schema").out)

    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    fine = {"llms": {"s": {"provider": "scripted", "repeat": True}}, "responses": [{"llm": "s", "model": "m"}]}
    assert validator.is_valid(fine)
    assert not validator.is_valid({**fine, "llms": {"s": {"provider": "scripted", "repaet": True}}})
    assert not validator.is_valid({**fine, "llms": {"s": {"provider": "nobody"}}})


STORE = '[stores.notes]\nprovider = "memory"\n'


def test_a_store_that_no_rule_asks_is_noted(run, script):
    path = script('{ text = "-" }')
    path.write_text(path.read_text() + STORE)

    assert "stores.notes: no rule asks for its documents: {{rag_context}}" in run("check").out


@pytest.mark.parametrize(
    ("prompt", "tools"),
    [("{{rag_context}}", ""), ("{{documents.0.text}}", ""), ("", '[[tools.registry]]\nname = "search_documents"\n')],
)
def test_a_store_that_a_prompt_or_a_tool_looks_into_is_not_noted(run, tmp_path, prompt, tools):
    (tmp_path / "flexchat.toml").write_text(
        f'[llms.a]\nprovider = "rehearsal"\n[[responses]]\nllm = "a"\nmodel = "x"\nprompt = "{prompt}"\n{STORE}{tools}'
    )

    assert "note:" not in run("check").out


def test_a_misspelt_variable_of_a_prompt_is_noted_with_its_line(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "rehearsal"\n[[responses]]\nllm = "a"\nmodel = "x"\nprompt = "{{rag_contxt}} {{topic}}"\n'
    )

    ran = run("check")

    assert ran.status == 0
    assert ran.out.splitlines()[0] == (
        "note: flexchat.toml:6: responses[0].prompt: no variable is called 'rag_contxt' (did you mean 'rag_context'?); "
        "each message must bring it along (variables, --var)"
    )


def test_cases_are_checked_with_the_configuration_that_has_or_names_them(run, tmp_path):
    """Those in the table with its lines, those in files with theirs."""
    (tmp_path / "more.toml").write_text('[[cases]]\nname = "a"\nmessage = "hi"\nno_call = true\nmesage = "x"\n')
    (tmp_path / "chat.toml").write_text(
        '[llms.a]\nprovider = "scripted"\n[[responses]]\nllm = "a"\nmodel = "m"\n[validation]\n'
        'files = ["more.toml", "gone.toml"]\n[[validation.cases]]\nname = "b"\nmessage = "hi"\n'
    )

    ran = run("check", "chat.toml")

    assert ran.status == 2
    assert "chat.toml:8: validation.cases[0]: a case that expects nothing proves nothing" in ran.out
    assert "chat.toml:7: validation.files[1]: there is no such file" in ran.out
    assert "more.toml:5: cases[0]: unknown key 'mesage' (did you mean 'message'?)" in ran.out


def test_tools_that_no_rule_offers_are_said(run, tmp_path):
    """In the last line, and for programs."""
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "rehearsal"\n[[responses]]\nllm = "a"\nmodel = "x"\n'
        'tools.allowed_tools = ["calculator"]\n[tools]\nregistry = [{ name = "calculator" }, { name = "echo" }]\n'
    )

    ran = run("check")

    assert (ran.status, ran.out) == (0, "flexchat.toml is fine: 1 llm, 2 tools (no rule offers echo), 1 rule\n")
    assert json.loads(run("check", "--json").out)["tools_no_rule_offers"] == ["echo"]


def test_a_variable_that_a_topics_prompt_cannot_show_is_noted(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "rehearsal"\n[[responses]]\nllm = "a"\nmodel = "x"\n'
        '[topic]\nllm = "a"\nmodel = "x"\nprompt = "{{userMesage}} {{current_topic}}"\n'
    )

    ran = run("check")

    assert "topic.prompt: no variable is called 'userMesage' (did you mean 'userMessage'?)" in ran.out
    assert "current_topic" not in ran.out


@pytest.mark.parametrize(
    ("model", "media", "notes"),
    [
        ("o3-mini", "[media]\nmax_bytes = 1_000_000\n", 1),
        ("o3-mini", "", 0),
        ("gpt-5.2", "[media]\nmax_bytes = 1_000_000\n", 0),
    ],
)
def test_a_rule_whose_model_reads_text_only_is_noted_where_media_are_configured(run, tmp_path, model, media, notes):
    llm = '[llms.a]\nprovider = "openai"\napi_key = "${KEY:-k}"\n'
    text = f'{media}{llm}[[responses]]\nllm = "a"\nmodel = "{model}"\n'
    (tmp_path / "chat.toml").write_text(text)

    ran = run("check", "chat.toml")

    assert (ran.status, ran.out.count("reads text only")) == (0, notes)
    if notes:
        assert f"note: chat.toml:6: responses[0]: a/{model} reads text only" in ran.out
