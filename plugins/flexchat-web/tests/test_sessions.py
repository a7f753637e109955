"""Sessions of browsers: a random id in a cookie, and digests at rest."""

import time

import pytest
from flexchat.store import data_folder

TOKENS = {"a-token-of-alice-1": "alice", "b-token-of-bob-123": "bob"}


def session_in(answer):
    return answer.headers["set-cookie"].partition("=")[2].partition(";")[0]


async def test_the_cookie_is_a_session_and_not_the_token(new_client):
    """Each sign-in has its own; what is stored reveals neither."""
    client = await new_client(tokens=TOKENS)
    first = session_in(await client.post("/api/session", json={"token": "a-token-of-alice-1"}))
    second = session_in(await client.get("/?token=a-token-of-alice-1"))
    assert first != second
    assert min(len(first), len(second)) >= 32
    stored = b"".join(path.read_bytes() for path in data_folder().glob("sessions.db*"))
    assert stored
    for secret in (first, second, *TOKENS):
        assert secret.encode() not in stored


async def test_signing_out_ends_the_session_for_a_copy_of_the_cookie(new_client):
    client = await new_client(tokens=TOKENS)
    copied = {"cookie": f"flexchat_session={session_in(await client.get('/?token=a-token-of-alice-1'))}"}
    assert (await client.get("/api/config", headers=copied)).status_code == 200
    await client.delete("/api/session")
    client.cookies.clear()

    answer = await client.get("/api/config", headers=copied)

    assert answer.status_code == 401
    assert "this session has ended: sign in again" in answer.json()["detail"]


async def test_a_session_outlives_the_process_and_ends_with_its_token(new_client):
    client = await new_client(tokens=TOKENS)
    cookie = {"cookie": f"flexchat_session={session_in(await client.get('/?token=b-token-of-bob-123'))}"}
    for tokens, status in ((TOKENS, 200), ({"a-token-of-alice-1": "bob"}, 401), ({"b-token-of-bob-123": "b"}, 200)):
        again = await new_client(tokens=tokens)
        assert (await again.get("/api/config", headers=cookie)).status_code == status


@pytest.mark.parametrize("id", ["", "x", "a-token-of-alice-1", "é", '"', "a" * 9_000, "%00", "' OR 1=1 --"])
async def test_what_is_no_session_opens_nothing(new_client, id):
    client = await new_client(tokens=TOKENS)
    headers = [(b"cookie", f"flexchat_session={id}".encode())]
    assert (await client.get("/api/config", headers=headers)).status_code == 401


async def test_sessions_end_after_a_month(new_client, monkeypatch):
    client = await new_client(tokens=TOKENS)
    await client.get("/?token=a-token-of-alice-1")
    now = time.time()
    monkeypatch.setattr("flexchat_web.sessions.time.time", lambda: now + 31 * 86_400)
    assert (await client.get("/api/config")).status_code == 401


async def test_sessions_that_cannot_be_stored_are_a_sentence(new_client, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path / "file"))
    client = await new_client(tokens=TOKENS)
    for answer in (
        await client.post("/api/session", json={"token": "a-token-of-alice-1"}),
        await client.get("/?token=a-token-of-alice-1"),
        await client.get("/api/config", headers={"cookie": "flexchat_session=abc"}),
    ):
        assert answer.status_code == 503
        assert "a-token" not in answer.text
