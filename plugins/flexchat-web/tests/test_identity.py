"""Who is behind a request: what the lines of a token file grant."""

from __future__ import annotations

import pytest
from flexchat import Principal
from flexchat_web.identity import Identity, principal_of, read_identity, valid_tokens
from flexchat_web.serving import Settings

TOKEN = "t" * 20


@pytest.mark.parametrize(
    ("words", "principal"),
    [
        (["admin"], ("token-", ("admin",))),
        (["admin", "ops", "user=ann"], ("ann", ("admin", "ops"))),
        (["user=ann", "expires=2999-01-31"], ("ann", ())),
        ([], ("token-", ())),
    ],
)
def test_what_follows_a_token_is_its_principal(words, principal):
    """Roles, and optionally a user and a date; the name never shows the token."""
    identity = read_identity(TOKEN, words)

    assert identity.principal.name.startswith(principal[0])
    assert identity.principal.roles == principal[1]
    assert TOKEN not in identity.principal.name
    assert not identity.has_expired


@pytest.mark.parametrize("word", ["usr=ann", "user=", "expires=soon", "expires=2027-13-01", "=x"])
def test_a_word_that_cannot_be_read_is_an_error(word):
    """It is not taken for a role."""
    with pytest.raises(ValueError, match=r"cannot be read|is no date"):
        read_identity(TOKEN, [word])


def test_an_expired_token_is_none():
    """It has neither a tenant nor a principal."""
    identity = Identity(principal=Principal("ann"), expires_at=1.0)
    settings = Settings(tokens={TOKEN: "acme", "other": "acme"}, identities={TOKEN: identity})

    assert valid_tokens(settings) == {"other": "acme"}
    assert principal_of(TOKEN, settings) is None
