"""Tokens in links: only what was signed is accepted, and only until it expires."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from flexchat.store import PendingQuestion, Question
from flexchat_approvals.links import make_token, read_token, webhook_key
from hypothesis import given
from hypothesis import strategies as st

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def question(id="q1", tenant="acme", *, seconds=60.0):
    now = datetime.now(UTC)
    return PendingQuestion(
        question=Question(message="Pay?", id=id),
        tenant=tenant,
        conversation="c",
        turn="t",
        asked_at=now.isoformat(),
        expires_at=(now + timedelta(seconds=seconds)).isoformat(),
    )


@given(id=WORDS, tenant=WORDS)
def test_a_token_leads_to_its_question(id, tenant):
    assert read_token(SECRET, make_token(SECRET, question(id, tenant))) == (id, tenant)


def test_an_expired_token_leads_nowhere():
    assert read_token(SECRET, make_token(SECRET, question(seconds=-1))) is None


def test_a_token_of_another_secret_leads_nowhere():
    assert read_token(OTHER, make_token(SECRET, question())) is None


@given(at=st.integers(min_value=0), byte=st.integers(0, 127))
def test_a_changed_token_leads_nowhere(at, byte):
    token = make_token(SECRET, question())
    at %= len(token)
    changed = token[:at] + chr(byte) + token[at + 1 :]
    assert read_token(SECRET, changed) is None or changed == token


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text):
    assert read_token(SECRET, text) is None


def test_a_token_signed_as_a_message_leads_nowhere():
    """The key of messages signs no tokens: a receiver that signs what it likes gains nothing."""
    import hashlib
    import hmac

    content = json.dumps(["q1", "acme", time.time() + 60], separators=(",", ":")).encode()
    signature = hmac.digest(webhook_key(SECRET), content, hashlib.sha256)
    parts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (content, signature)]
    assert read_token(SECRET, ".".join(parts)) is None


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "secret",
        SECRET.removeprefix("whsec_"),
        "whsec_" + base64.b64encode(b"short").decode(),
        "whsec_%%%",
    ],
)
def test_a_secret_that_is_none_is_named_without_being_shown(secret):
    with pytest.raises(ValueError, match="whsec_ and the Base64 of 24 to 64 random bytes") as caught:
        webhook_key(secret)
    assert len(secret) < 10 or secret not in str(caught.value)
