"""flexchat tokens: add, list, remove."""

import concurrent.futures
import json
import os
import stat

import pytest
from flexchat_cli.main import main
from flexchat_web.token_file import digest_of, read_token_file


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tokens"


@pytest.fixture
def run(file, capsys):
    """Run a command with the file; gives its status, what it printed, and its errors."""

    def run(*words):
        status = main(["tokens", *words, "--token-file", str(file)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_token_is_printed_once_and_only_its_hash_is_kept(run, file):
    status, printed, _ = run("add", "acme", "support", "on-call", "--user", "ann", "--expires", "2999-01-31")
    token = printed.strip()
    (line,) = read_token_file(file)

    assert (status, len(token)) == (0, 43)
    assert (line.digest, line.ends, line.token) == (digest_of(token), token[-4:], "")
    assert line.identity.principal.name == "ann"
    assert line.identity.principal.roles == ("support", "on-call")
    assert token not in file.read_text()
    assert token not in run("list")[1]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions there")
def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_permissions(run, file):
    run("add", "acme")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    run("add", "acme")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_other_lines_stay(run, file):
    text = "# ours\n\nacme  a-token-in-plain-text  admin\n"
    file.write_text(text)
    run("add", "beta")
    added = file.read_text()
    (_, second) = json.loads(run("list", "--json")[1])
    status, _, said = run("remove", second["id"])

    assert added.startswith(text)
    assert (status, file.read_text()) == (0, text)
    assert second["id"] in said


def test_the_list_has_hashes_ends_and_expiry(run, file):
    file.write_text("acme a-token-in-plain-text admin user=ann expires=2001-01-31\n")
    run("add", "beta", "--expires", "90d")
    first, second = run("list")[1].splitlines()
    digest = digest_of("a-token-in-plain-text")[:12]

    assert first == f"{digest}  …text  acme  ann  admin  expired 2001-01-31T00:00:00+00:00  (stored in plain text)"
    assert "plain" not in second
    assert "expires 20" in second
    assert "a-token-in" not in first


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "two words"), "one word"),
        (("add", "#acme"), "one word"),
        (("add", "acme", "role=x"), "one word"),
        (("add", "acme", "--user", "a b"), "one word"),
        (("add", "acme", "--user", "a\x07b"), "cannot be"),
        (("add", "acme", "--expires", "soon"), "--expires soon is no date"),
        (("add", "acme", "--expires", "2001-01-31"), "in the past"),
        (("add", "acme", "--expires", "0d"), "is no date"),
        (("add", "acme", "--expires", "99999d 1"), "is no date"),
        (("remove", "0123"), "no token with the id '0123'"),
        (("remove", ""), "with the id ''"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_and_changes_nothing(run, file, words, reason):
    run("add", "acme")
    run("add", "acme")
    before = file.read_text()
    status, printed, said = run(*words)

    assert (status, printed) == (2, "")
    assert reason in said
    assert file.read_text() == before


def test_a_file_with_a_bad_line_is_left_alone(run, file):
    file.write_text("acme\n")

    for words in (("add", "acme"), ("list",), ("remove", "a")):
        status, printed, said = run(*words)
        assert (status, printed) == (2, "")
        assert f"{file}:1: a line is TENANT TOKEN" in said
    assert file.read_text() == "acme\n"


def test_a_missing_file_has_nothing_to_list_or_remove(run, file):
    assert run("list")[0] == 2
    assert run("remove", "a")[0] == 2
    assert not file.exists()


def test_tokens_that_are_added_at_once_are_all_kept(file):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: main(["tokens", "add", "acme", "--token-file", str(file)]), range(24)))

    assert (statuses, len(read_token_file(file))) == ([0] * 24, 24)


ROLES = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "rehearsal"
[roles.support]
tools = ["*"]
[serve]
token_file = "tokens"
"""
MISSPELT = "no role is called 'suport' (did you mean 'support'?): it grants nothing"


def test_a_role_that_the_configuration_does_not_have_is_noted(run, file, monkeypatch):
    """The token is made: a role may be added later. Without roles, or with a configuration that is none, nothing is."""
    monkeypatch.chdir(file.parent)
    assert "note" not in run("add", "acme", "suport")[2]
    (file.parent / "flexchat.toml").write_text(ROLES)

    status, printed, said = run("add", "acme", "support", "suport")

    assert (status, len(printed.strip())) == (0, 43)
    assert [line for line in said.splitlines() if line.startswith("note")] == [f"note: {MISSPELT}"]
    (file.parent / "flexchat.toml").write_text("[roles")
    assert run("add", "acme", "suport")[0] == 0


def test_check_notes_such_a_role_with_file_and_line(file, monkeypatch, capsys):
    monkeypatch.chdir(file.parent)
    (file.parent / "flexchat.toml").write_text(ROLES)
    token = "acme a-token-in-plain-text support"
    file.write_text(f"# ours\n{token}\n{token.replace('plain', 'other')} suport\n")

    assert main(["check"]) == 0
    assert f"note: flexchat.toml:10: serve.token_file: tokens:3: {MISSPELT}" in capsys.readouterr().out

    file.write_text("acme\n")
    assert main(["check"]) != 0
    assert "tokens:1: a line is TENANT TOKEN" in capsys.readouterr().out
