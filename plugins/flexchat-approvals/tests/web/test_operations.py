"""Remembered replies over HTTP, and links with which a question gets one reply."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from flexchat.store import PendingQuestion, Question
from flexchat_approvals.links import make_token
from flexchat_testing import calls
from webhook_receiver import SECRET

TOKENS = {"token-of-acme-acme": "acme", "token-of-other-other": "other"}
ACME, OTHER = ({"authorization": f"Bearer {token}"} for token in TOKENS)
SHOP = """
done = []


def pay(amount: float):
    done.append(amount)
    return f"paid {amount:g}"
"""
PAY = {
    "name": "pay",
    "description": "Pay an amount.",
    "effect": "write",
    "parameters": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    "implementation": {"type": "python", "function": "shop_that_pays:pay"},
}
QUESTIONS = {"expires": "7d", "webhook": "https://hooks.example.com/x", "webhook_secret": SECRET}


@pytest.fixture
async def shop(told, tmp_path, monkeypatch):
    """Make a client of an app whose model pays: (client, what was paid)."""
    (tmp_path / "shop_that_pays.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    told.tables["tools"]["registry"].append(PAY)
    told.tables |= {"questions": QUESTIONS, "approvals": [{"tools": ["pay"]}]}
    # Nothing is sent here: the links are made by the tests.
    monkeypatch.setattr("flexchat_approvals.webhook.Outbox.send_all", _nothing)
    told.says(calls(("pay", {"amount": 5})), "Done.")
    client = await told.client(tokens=TOKENS)
    import shop_that_pays

    shop_that_pays.done.clear()
    return client, shop_that_pays.done


async def _nothing(self):
    return None


async def suspended(client, *, conversation="c", headers=ACME):
    """Ask for a payment, and return the question of the suspended turn."""
    body = {"prompt": "Pay.", "conversation": conversation}
    answer = (await client.post("/chat/api", json=body, headers=headers)).json()
    assert answer["status"] == "suspended"
    (question,) = answer["turn"]["pending"]
    return question


async def ended(client, question, *, headers=ACME):
    """Wait for the end of a question's turn."""
    await client.get(f"/api/turns/{question['turn']}/events", headers=headers)


def link(question, *, secret=SECRET, **changes):
    names = ("tenant", "conversation", "turn", "asked_at", "expires_at")
    pending = PendingQuestion(question=Question(message="", id=question["id"]), **{n: question[n] for n in names})
    return f"/api/approvals/by-token/{make_token(secret, attrs.evolve(pending, **changes))}"


async def test_a_link_shows_its_question_and_takes_one_reply_without_a_sign_in(shop):
    client, paid = shop
    question = await suspended(client)
    shown = await client.get(link(question))
    assert shown.status_code == 200
    assert shown.json()["question"]["details"]["arguments"] == {"amount": 5}
    assert shown.json()["state"] == "open"
    assert "remember" not in shown.json()["question"]

    replied = await client.post(link(question), json={"action": "accept"})
    assert replied.status_code == 200
    assert replied.json()["replied_by"] == "a link sent to the webhook"
    await ended(client, question)
    assert paid == [5]
    for again in (
        await client.get(link(question)),
        await client.post(link(question), json={"action": "accept"}),
        await client.post(link(question), json={"action": "decline"}),
    ):
        assert again.status_code == 404
        assert "it was answered by a link sent to the webhook at" in again.json()["detail"]
    assert paid == [5]


async def test_no_log_has_the_token_of_a_link(shop, caplog):
    client, _ = shop
    path = link(await suspended(client))
    caplog.clear()
    with caplog.at_level("INFO", "flexchat_web.access"):
        for method in ("GET", "HEAD", "DELETE", "OPTIONS", "POST"):
            await client.request(method, path, **({"json": {"action": "accept"}} if method == "POST" else {}))

    assert len(caplog.records) == 5
    assert {record.fields["path"] for record in caplog.records} == {"/api/approvals/by-token/{token}"}
    assert path.rpartition("/")[2] not in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_opening_a_link_changes_nothing(shop, method):
    client, paid = shop
    question = await suspended(client)
    for query in ("", "?action=accept"):
        await client.request(method, link(question) + query)
    kept = (await client.get(f"/api/questions/{question['id']}", headers=ACME)).json()
    assert (kept["state"], paid) == ("open", [])


async def test_a_link_rejects_with_a_reason(shop):
    client, paid = shop
    question = await suspended(client)
    replied = await client.post(link(question), json={"action": "decline", "reason": "not now"})
    assert replied.json()["reply"] == {"action": "decline", "content": {}, "why": "not now", "remember": ""}
    await ended(client, question)
    assert paid == []


async def test_a_reply_that_does_not_fit_leaves_the_link_usable(shop):
    client, paid = shop
    question = await suspended(client)
    for body in (
        {"action": "maybe"},
        {},
        {"action": "accept", "content": {"arguments": {"amount": "much"}}},
        {"action": "accept", "remember": "always"},
        {"action": "accept", "by": "the boss"},
    ):
        refused = await client.post(link(question), json=body)
        assert refused.status_code in (400, 422), body
        assert len(refused.json()["detail"].splitlines()) == 1
    assert paid == []
    assert (await client.post(link(question), json={"action": "accept"})).status_code == 200


async def test_a_link_that_is_none_leads_nowhere(shop):
    """Forged, of another secret, expired, of another tenant's question of that name, cut off, of no question."""
    client, paid = shop
    question = await suspended(client)
    soon = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    other = "whsec_" + "b" * 40
    good = link(question)
    for bad in (
        link(question, secret=other),
        link(question, expires_at=soon),
        link(question, tenant="other"),
        link({**question, "id": "call_none"}),
        good[:-2],
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        good.replace(".", "..", 1),
        "/api/approvals/by-token/x",
        "/api/approvals/by-token/" + "a" * 5_000,
        "/api/approvals/by-token/%00.%ff",
    ):
        for answer in (await client.get(bad), await client.post(bad, json={"action": "accept"})):
            assert answer.status_code == 404, bad
            assert len(answer.json()["detail"].splitlines()) == 1
    assert paid == []
    assert (await client.get(good)).status_code == 200


async def test_a_page_of_another_site_cannot_reply(shop):
    client, paid = shop
    question = await suspended(client)
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = await client.post(link(question), json={"action": "accept"}, headers=headers)
        assert answer.status_code == 403
    assert paid == []


async def test_a_link_does_not_show_secrets_of_the_config(shop, told):
    client, _ = shop
    told.says(calls(("pay", {"amount": 5, "note": SECRET})), "Done.")
    question = await suspended(client, conversation="d")
    assert SECRET not in (await client.get(link(question))).text


async def test_a_server_without_a_webhook_has_no_links(told):
    client = await told.client()
    answer = await client.get("/api/approvals/by-token/x.y")
    assert answer.status_code == 404


async def test_a_remembered_reply_is_listed_and_revoked(shop):
    client, paid = shop
    question = await suspended(client)
    body = {"action": "accept", "remember": "always"}
    await client.post(f"/api/questions/{question['id']}/reply", json=body, headers=ACME)
    await ended(client, question)
    (rule,) = (await client.get("/api/approvals/rules", headers=ACME)).json()["rules"]
    assert (rule["id"], rule["replied_by"], rule["reply"]["remember"]) == (question["id"], "acme", "always")
    assert (await client.get("/api/approvals/rules", headers=OTHER)).json() == {"rules": []}
    answer = await client.post("/chat/api", json={"prompt": "Pay.", "conversation": "d"}, headers=ACME)
    assert answer.json()["status"] == "success"
    assert paid == [5, 5]

    place = f"/api/approvals/rules/{question['id']}"
    assert (await client.delete(place, headers=OTHER)).status_code == 404
    revoked = await client.delete(place, headers=ACME)
    assert (revoked.status_code, revoked.json()["remembered"]) == (200, "")
    assert (await client.get("/api/approvals/rules", headers=ACME)).json() == {"rules": []}
    await suspended(client, conversation="e")
    assert (await client.delete("/api/approvals/rules/none", headers=ACME)).status_code == 404


async def test_rules_are_listed_in_parts(shop):
    client, _ = shop
    ids = []
    for n in range(3):
        question = await suspended(client, conversation=f"c{n}")
        body = {"action": "accept", "remember": "conversation"}
        await client.post(f"/api/questions/{question['id']}/reply", json=body, headers=ACME)
        await ended(client, question)
        ids.insert(0, question["id"])
    first = (await client.get("/api/approvals/rules?limit=2", headers=ACME)).json()["rules"]
    rest = (await client.get(f"/api/approvals/rules?limit=2&before={first[-1]['id']}", headers=ACME)).json()["rules"]
    assert [rule["id"] for rule in first + rest] == ids


async def test_open_questions_are_counted_for_each_tenant(shop):
    client, _ = shop
    assert (await client.get("/api/approvals/count", headers=ACME)).json() == {"count": 0}
    await suspended(client)
    assert (await client.get("/api/approvals/count", headers=ACME)).json() == {"count": 1}
    assert (await client.get("/api/approvals/count", headers=OTHER)).json() == {"count": 0}
    assert (await client.get("/api/approvals/count")).status_code == 401
    assert (await client.get("/api/approvals/rules")).status_code == 401


async def test_a_server_that_keeps_nothing_counts_none(new_client):
    client = await new_client()
    assert (await client.get("/api/approvals/count")).json() == {"count": 0}
