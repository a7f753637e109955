"""flexchat init: a first configuration."""

import json
import tomllib

import pytest
from flexchat.config.document import read_document
from flexchat.installing import how_to_install
from flexchat_cli.init import STARTERS

FINE = "flexchat.toml is fine: 1 llm, 2 tools, 1 rule"


@pytest.mark.parametrize("kind", STARTERS)
def test_what_init_writes_is_short_fine_and_answers_at_the_limit(run, kind, tmp_path, monkeypatch):
    """At most 25 lines, accepted by check, at_limit = "answer", calculator and clock."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefgh")
    monkeypatch.setenv("GEMINI_API_KEY", "k-abcdefgh")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-abcdefgh")

    assert run("init", kind).status == 0

    text = (tmp_path / "flexchat.toml").read_text()
    assert len(text.splitlines()) <= 32
    config = tomllib.loads(text)
    assert config["tools"]["at_limit"] == "answer"
    assert [tool["name"] for tool in config["tools"]["registry"]] == ["calculator", "get_current_datetime"]
    checked = run("check")
    assert (checked.status, checked.out) == (0, f"{FINE}\n")


@pytest.mark.parametrize("kind", STARTERS)
@pytest.mark.parametrize("switched_on", [False, True])
def test_yaml_says_the_same_as_toml(run, kind, tmp_path, switched_on):
    """With the same comments; those that switch something on do it in both."""
    for name in ("a.toml", "a.yaml"):
        assert run("init", kind, "--config", name).status == 0
        path = tmp_path / name
        *settled, kept, stored, provider = [line for line in path.read_text().splitlines() if line]
        if switched_on:
            settled += [line.removeprefix("# ") for line in (kept, stored, provider)]
        path.write_text("\n".join(settled))

    toml, yaml = (read_document(tmp_path / name) for name in ("a.toml", "a.yaml"))
    assert (yaml.data, yaml.problems) == (toml.data, ())


def test_openai_is_the_default_and_its_key_stays_out_of_the_file(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefgh")
    monkeypatch.setenv("GEMINI_API_KEY", "k-abcdefgh")

    ran = run("init")

    text = (tmp_path / "flexchat.toml").read_text()
    assert "${OPENAI_API_KEY}" in text
    assert "sk-abcdefgh" not in text + ran.out
    assert "OPENAI_API_KEY" in ran.out
    assert "flexchat check" in ran.out


def test_a_file_is_never_overwritten_unless_forced(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text("mine")

    refused = run("init", "rehearsal")
    assert refused.status == 2
    assert "--force" in refused.err
    assert (tmp_path / "flexchat.toml").read_text() == "mine"

    assert run("init", "rehearsal", "--force").status == 0
    assert "rehearsal" in (tmp_path / "flexchat.toml").read_text()


def test_the_rehearsal_can_be_asked_at_once(run):
    run("init", "rehearsal")

    ran = run("ask", "What is 17% of 230?")

    assert ran.status == 0
    assert "39.1" in ran.out
    assert "no config found" not in ran.err


def test_config_names_another_file_and_the_next_steps_name_it_too(run, tmp_path):
    ran = run("init", "rehearsal", "--config", "chat.toml")

    assert (tmp_path / "chat.toml").exists()
    assert "flexchat check --config chat.toml" in ran.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["opneai"], "did you mean 'openai'?"),
        (["--config", "chat.json"], "must end in .toml or .yaml, not chat.json"),
        (["--config", "no/such/folder.toml"], "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_a_usage_error(run, words, text):
    ran = run("init", *words)

    assert ran.status == 2
    assert text in ran.err


def test_without_the_providers_package_the_first_step_installs_it(run):
    ran = run("init", "openai", "--no-plugin", "openai")

    assert ran.status == 0
    assert how_to_install("flexchat-openai") in ran.out


def test_without_the_tools_package_the_file_names_no_tools(run, tmp_path):
    run("init", "rehearsal", "--no-plugin", "builtin")

    assert "registry" not in (tmp_path / "flexchat.toml").read_text()
    assert run("check").status == 0


def test_init_as_json_names_the_file(run):
    assert json.loads(run("init", "local", "--json").out) == {"file": "flexchat.toml", "kind": "local"}


def test_what_init_writes_as_comments_switches_on_documents_and_conversations(run, tmp_path):
    run("init", "rehearsal")
    path = tmp_path / "flexchat.toml"
    *settled, kept, stored, provider = [line for line in path.read_text().splitlines() if line]
    assert all(line.startswith("# ") for line in (kept, stored, provider))
    on = "\n".join([*settled, *(line.removeprefix("# ") for line in (kept, stored, provider))])
    path.write_text(on.replace('prompt = "', 'prompt = "{{rag_context}} '))

    ran = run("check")

    assert (ran.status, ran.out) == (0, f"{FINE}, 1 document store, conversations are kept\n")
    config = tomllib.loads(path.read_text())
    assert config["conversations"] == {}
    assert config["stores"] == {"documents": {"provider": "sqlite"}}


@pytest.mark.parametrize("kind", ["local", "ollama"])
def test_a_model_on_this_machine_is_given_time(run, tmp_path, kind):
    """Without a graphics card a prompt with tools takes minutes to read: the usual limits would end every turn."""
    from flexchat.config.reading import read_config

    assert run("init", kind).status == 0

    config = read_config(tmp_path / "flexchat.toml").finish()
    assert config.limits.turn_timeout_ms == 1_800_000
    assert config.limits.phase_timeout_ms == 300_000
    assert config.llms["main"].settings["first_byte_timeout_s"] == 600
    assert run("check").status == 0
