"""Who is behind a request: what the lines of a token file grant."""

import hashlib

import pytest
from flexchat_web.identity import identity_of
from flexchat_web.token_file import MAX_PROBLEMS, TokenFileError, read_token_file

TOKEN = "t" * 20
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a token file with some text."""

    def read(text):
        file = tmp_path / "tokens"
        file.write_text(text)
        return read_token_file(file)

    return read


@pytest.mark.parametrize("stored", [TOKEN, f"sha256:{DIGEST}"], ids=["plain", "hash"])
@pytest.mark.parametrize(
    ("words", "principal"),
    [
        ("admin", (f"token-{DIGEST[:8]}", ("admin",))),
        ("admin ops user=ann", ("ann", ("admin", "ops"))),
        ("user=ann expires=2999-01-31", ("ann", ())),
        ("", (f"token-{DIGEST[:8]}", ())),
    ],
)
def test_what_follows_a_token_or_its_hash_is_its_principal(read, stored, words, principal):
    """Roles, and optionally a user and a date; the name never shows the token."""
    (line,) = read(f"# ours\n\nacme   {stored} {words}\n")

    assert (line.identity.principal.name, line.identity.principal.roles) == principal
    assert (line.number, line.digest, line.identity.tenant) == (3, DIGEST, "acme")
    assert not line.identity.has_expired
    assert TOKEN not in repr(line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("acme", ":1: a line is TENANT TOKEN"),
        (f"# a\nacme {TOKEN} usr=ann", ":2: 'usr=ann' cannot be read"),
        (f"acme {TOKEN} user=", ":1: 'user=' cannot be read"),
        (f"acme {TOKEN} user=a user=b", ":1: 'user=b' cannot be read"),
        (f"acme {TOKEN} expires=soon", ":1: expires=soon is no date"),
        (f"acme {TOKEN} expires=2027-13-01", ":1: expires=2027-13-01 is no date"),
        ("acme sha256:abc", ":1: sha256: is followed by 64 hexadecimal digits"),
        (f"acme sha256:{DIGEST.upper()}", ":1: sha256: is followed by 64 hexadecimal digits"),
        (f"acme {TOKEN}\nacme sha256:{DIGEST}", ":2: this token is already in line 1"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_with_its_number(read, text, reason):
    with pytest.raises(TokenFileError) as raised:
        read(text)

    assert reason in str(raised.value)
    assert TOKEN not in str(raised.value)


def test_all_lines_that_cannot_be_read_are_reported_at_once(read):
    with pytest.raises(TokenFileError) as raised:
        read(f"acme\n# fine\nacme {TOKEN}\nacme short\nacme {TOKEN} usr=ann\nacme {'u' * 20} expires=soon\n")

    assert [line.split(":")[1] for line in str(raised.value).splitlines()] == ["1", "4", "5", "6"]


def test_an_error_names_some_of_many_lines(read):
    with pytest.raises(TokenFileError) as raised:
        read("acme\n" * 500)

    *named, last = str(raised.value).splitlines()
    assert len(named) == MAX_PROBLEMS
    assert last.endswith("tokens: 480 more lines cannot be read")


def test_an_expired_token_is_none(read):
    assert [line.identity.has_expired for line in read(f"acme {TOKEN} expires=2001-01-01")] == [True]


@pytest.mark.parametrize("name", ["", " ann", "ann\n", "a\x00b", "x" * 201, None, 7, ["ann"], "a\u202eb"])
def test_a_name_that_comes_with_a_request_can_be_shown(name):
    for names in ((name, "ann", []), ("acme", name, []), ("acme", "ann", [name])):
        with pytest.raises(ValueError, match="is no name"):
            identity_of(*names)
