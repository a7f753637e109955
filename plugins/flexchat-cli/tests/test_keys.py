"""flexchat keys, and --env-file: no key is ever shown."""

import json
import os

import pytest

KEY = "sk-very-secret-0123456789"
NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_ACCESS_TOKEN")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """Only what a test sets; and a .env file's variables end with it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in (*NAMES, "OLLAMA_API_KEY", "ACME_API_KEY"):
        os.environ.pop(name, None)


@pytest.mark.parametrize("name", ["openai", "OPENAI_API_KEY"])
def test_a_key_is_read_from_a_pipe_and_listed_without_it(run, name, data_folder):
    """By the provider's name or the variable's; the command says where it is."""
    ran = run("keys", "set", name, stdin=f"{KEY}\n".encode())
    assert ran.status == 0
    assert str(data_folder / "keys" / "OPENAI_API_KEY") in ran.err.replace("\n", "")
    assert "only you can read" in ran.err
    assert (data_folder / "keys" / "OPENAI_API_KEY").read_text() == KEY + "\n"

    listed = run("keys", "list")
    assert listed.out.split() == ["OPENAI_API_KEY", "***", "file"]
    assert json.loads(run("keys", "list", "--json").out) == [{"name": "OPENAI_API_KEY", "source": "file", "also": []}]
    os.environ["OPENAI_API_KEY"] = "sk-another-one-0123"
    both = run("keys", "list")
    assert "environment (and file, not used)" in both.out
    again = run("keys", "set", name, stdin=f"{KEY}\n".encode())
    assert "the environment's OPENAI_API_KEY comes first" in again.err

    deleted = run("keys", "delete", name)
    assert (deleted.status, run("keys", "list", "--json").out.count("file")) == (0, 0)
    assert KEY not in "".join(each.out + each.err for each in (ran, listed, both, again, deleted))


def test_at_a_terminal_it_is_asked_for_without_showing_it(run, monkeypatch, data_folder):
    asked = []
    monkeypatch.setattr("click.prompt", lambda text, **how: asked.append((text, how["hide_input"])) or KEY)
    ran = run("keys", "set", "anthropic", terminal=True)
    assert (ran.status, asked) == (0, [("Key for ANTHROPIC_API_KEY", True)])
    assert KEY not in ran.out + ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "openai", KEY), "never an argument"),
        (("set", KEY), "no provider with a key"),
        (("set", "opnai"), "did you mean 'openai'"),
        (("set", "OPENAI_API_KYE"), "variable"),
        (("set", "../../etc/passwd"), "no provider with a key"),
        (("set", "x" * 5000), "this is no provider"),
        (("set", "PATH"), "no provider with a key"),
        (("delete", "openai"), "no key is stored as OPENAI_API_KEY (stored: none)"),
        (("delete", "opnai"), "did you mean 'openai'"),
    ],
)
def test_names_that_are_none_are_refused(run, words, said, data_folder):
    """Without repeating what may be a key, and without storing anything."""
    ran = run("keys", *words, stdin=KEY.encode())
    assert ran.status == 2
    assert said in ran.err
    assert KEY not in ran.out + ran.err
    assert len(ran.err) < 600
    assert not (data_folder / "keys").exists()


def test_a_variable_no_provider_reads_is_stored_and_said(run):
    """It may be a typing error, or a server of one's own."""
    ran = run("keys", "set", "OPENAI_API_KEYS", stdin=KEY.encode())
    assert ran.status == 0
    assert "no provider reads OPENAI_API_KEYS by itself (did you mean 'OPENAI_API_KEY'?)" in " ".join(ran.err.split())


@pytest.mark.parametrize("typed", [b"", b"short", b"\xff\xfe bytes of something else", b"two\nlines-of-keys"])
def test_what_is_no_key_is_refused(run, typed, data_folder):
    ran = run("keys", "set", "openai", stdin=typed)
    assert ran.status == 2
    assert "cannot be a key" in ran.err
    assert not (data_folder / "keys").exists()


def test_a_file_with_wider_rights_is_refused_wherever_the_key_is_needed(run, tmp_path, data_folder):
    """In a configuration, it is a problem with its line; the command that mends it is in it."""
    run("keys", "set", "ACME_API_KEY", stdin=KEY.encode())
    (data_folder / "keys" / "ACME_API_KEY").chmod(0o644)
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\napi_key = "${ACME_API_KEY}"\n'
        '[[responses]]\nllm = "a"\nmodel = "m"\n'
    )
    ran = run("check")
    assert ran.status == 2
    assert "flexchat.toml:4: llms.a.api_key" in ran.err + ran.out
    assert "chmod 600" in ran.err + ran.out
    (data_folder / "keys" / "ACME_API_KEY").chmod(0o600)
    assert run("check").status == 0
    listed = run("keys", "list")
    assert listed.out.split() == ["ACME_API_KEY", "***", "file"]


def test_keys_of_the_configuration_are_listed_by_their_place(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        f'[llms.a]\nprovider = "openai"\napi_key = "{KEY}"\n[[responses]]\nllm = "a"\nmodel = "m"\n'
    )
    ran = run("keys", "list")
    assert ran.out.split() == ["llms.a.api_key", "***", "config"]
    assert KEY not in ran.out + ran.err


def test_an_env_file_is_read_only_when_named(run, tmp_path):
    """Before or after the command; the real environment wins; a key in it is used and not shown."""
    (tmp_path / ".env").write_text(f"export ACME_API_KEY=\"{KEY}\" # mine\nOPENAI_API_KEY='{KEY}2'\n")
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9"\napi_key = "${ACME_API_KEY}"\n'
        '[[responses]]\nllm = "a"\nmodel = "m"\n'
    )
    assert run("check").status == 2
    named = run("check", "--env-file", ".env")
    assert named.status == 0, named.err
    for name in ("ACME_API_KEY", "OPENAI_API_KEY"):
        os.environ.pop(name, None)
    os.environ["OPENAI_API_KEY"] = "the-real-one"
    listed = run("--env-file", ".env", "keys", "list")
    assert listed.out.split() == ["ACME_API_KEY", "***", "environment", "OPENAI_API_KEY", "***", "environment"]
    assert os.environ["OPENAI_API_KEY"] == "the-real-one"


@pytest.mark.parametrize(("text", "line"), [("A=1\nB\n", ":2:"), ('A=1\n\nC="open\n', ":3:"), (None, "no such file")])
def test_a_bad_env_file_is_an_error_with_its_line(run, tmp_path, text, line):
    if text is not None:
        (tmp_path / "x.env").write_text(text)
    ran = run("plugins", "--env-file", "x.env")
    assert ran.status == 2
    assert "x.env" in ran.err
    assert line in ran.err
