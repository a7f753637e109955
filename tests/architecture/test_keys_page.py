"""docs/keys.md says what is so: its commands run as a reader types them, and its names of variables are read."""

import os
import re
import shlex
from pathlib import Path

import pytest
from command_line import run, somewhere_empty
from flexchat import ConfigError, FlexChat

__all__ = ["run", "somewhere_empty"]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "keys.md").read_text()
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch, data_folder):
    """None is set or stored but by a test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        del os.environ[name]


def test_its_commands_do_what_they_say(run, data_folder):
    """The same lines, with the key typed into a pipe; where there is no keyring, the file it names has the key."""
    (session,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [shlex.split(line.removeprefix("$ flexchat ")) for line in session.splitlines() if line.startswith("$")]
    assert [words[:2] for words in commands] == [["keys", "set"], ["keys", "list"], ["keys", "delete"]]
    shown = [run(*words, stdin=f"{KEY}\n".encode()) for words in commands]

    assert [ran.status for ran in shown] == [0, 0, 0]
    assert re.match(r"OPENAI_API_KEY +\*\*\* +(keyring|file)", shown[1].out)
    assert "OPENAI_API_KEY  ***  keyring" in session
    assert KEY not in "".join(ran.out + ran.err for ran in shown)


def test_a_configuration_can_name_what_is_stored(run, tmp_path):
    """After keys set GROQ_API_KEY, as the page says; and none of it is shown."""
    (line,) = re.findall(r'`(api_key = "\$\{GROQ_API_KEY\}")`', PAGE)
    config = tmp_path / "flexchat.toml"
    entry = '[llms.groq]\nprovider = "openai"\nbase_url = "https://api.groq.com/openai/v1"\n'
    config.write_text(f'{entry}{line}\n[[responses]]\nllm = "groq"\nmodel = "m"\n')
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        FlexChat.from_config(config)

    assert run("keys", "set", "GROQ_API_KEY", stdin=f"{KEY}\n".encode()).status == 0
    assert FlexChat.from_config(config).mask(f"the key is {KEY}") == "the key is ***"


def test_from_model_finds_a_stored_key(run):
    """As from_config does."""
    (model,) = re.findall(r'`FlexChat\.from_model\("(\S+)"\)`', PAGE)
    key = "another-0123456789-of-this-test"
    assert FlexChat.from_model(model).mask(key) == key
    run("keys", "set", model.split("/")[0], stdin=f"{key}\n".encode())
    assert FlexChat.from_model(model).mask(key) == "***"
