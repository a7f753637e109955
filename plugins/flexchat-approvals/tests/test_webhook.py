"""Questions at the webhook: signed, repeated until they arrive, and never sent to a private address."""

import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from flexchat.domain.masking import Mask
from flexchat.plugin import ToolRetry
from flexchat.store import PendingQuestion, Question
from flexchat_approvals import webhook
from flexchat_approvals.links import read_token
from flexchat_approvals.webhook import Outbox, sign
from flexchat_sdk.plugin import LateFetcher
from webhook_receiver import SECRET, Receiver, verified


class Box:
    """The unsent questions of a store."""

    def __init__(self, *questions):
        self.unsent = [*questions]
        self.sent: list[str] = []

    async def take_unsent(self, *, limit, again_s):
        taken, self.unsent = self.unsent[:limit], self.unsent[limit:]
        return taken

    async def mark_sent(self, id, *, tenant):
        self.sent.append((tenant, id))


def question(id="q1", message="Pay?", **fields):
    now = datetime.now(UTC)
    expires = now + timedelta(hours=1)
    return PendingQuestion(
        question=Question(message=message, id=id, **fields),
        tenant="acme",
        conversation="c",
        turn="t",
        asked_at=now.isoformat(),
        expires_at=expires.isoformat(),
    )


@pytest.fixture
async def receiver():
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def outbox(receiver, monkeypatch):
    """The outbox over some questions: outbox(box, **changes)."""
    monkeypatch.setattr(webhook, "RETRY", ToolRetry(max_attempts=4, backoff_ms=1))
    fetchers = []

    def make(box, *, allow=None, **changes):
        fetchers.append(LateFetcher([receiver.place] if allow is None else allow, None, Mask()))
        fields = {"url": receiver.url, "secret": SECRET, "public_url": "https://chat.example.com/", "mask": Mask()}
        return Outbox(journal=box, fetcher=fetchers[-1], **{**fields, **changes})

    yield make
    for fetcher in fetchers:
        await fetcher.aclose()


async def test_a_question_arrives_signed_with_a_link_that_leads_to_it(receiver, outbox):
    box = Box(asked := question(details={"arguments": {"amount": 12}}))
    await outbox(box).send_all()

    (headers,), (body,) = receiver.headers, receiver.bodies
    message = verified(headers, body)
    assert headers[":request"] == "POST /hook HTTP/1.1"
    assert headers["webhook-id"] == "q1"
    assert message["type"] == "question.asked"
    assert message["timestamp"] == asked.asked_at
    data = message["data"]
    assert {name: data[name] for name in asked.to_dict()} == json.loads(json.dumps(asked.to_dict()))
    assert data["link"].startswith("https://chat.example.com/#/approvals/by-token/")
    assert data["reply_url"].startswith("https://chat.example.com/api/approvals/by-token/")
    for link in (data["link"], data["reply_url"]):
        assert read_token(SECRET, link.rpartition("/")[2]) == ("q1", "acme")
    assert box.sent == [("acme", "q1")]


def test_the_signature_is_that_of_the_specification():
    """The example of the specification's own libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_message_without_a_public_url_has_no_link(receiver, outbox):
    await outbox(Box(question()), public_url=None).send_all()
    assert not {"link", "reply_url"} & {*json.loads(receiver.bodies[0])["data"]}


async def test_secrets_of_the_config_are_masked(receiver, outbox):
    mask = Mask(["hunter2-hunter2"])
    asked = question(message="Send hunter2-hunter2?", details={"arguments": {"to": ["hunter2-hunter2"]}})
    await outbox(Box(asked), mask=mask).send_all()
    assert b"hunter2" not in receiver.bodies[0]


@pytest.mark.parametrize("failure", [500, 503, 429, 408, None])
async def test_what_may_pass_is_tried_again_under_the_same_id(receiver, outbox, failure):
    receiver.statuses = [failure, failure, 204]
    box = Box(question())
    await outbox(box).send_all()

    assert [headers["webhook-id"] for headers in receiver.headers] == ["q1"] * 3
    assert len({*receiver.bodies}) == 1
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        verified(headers, body)
    assert box.sent == [("acme", "q1")]


async def test_a_question_that_cannot_be_sent_stays_unsent_and_is_logged(receiver, outbox, caplog):
    receiver.statuses = [500]
    box = Box(question())
    await outbox(box).send_all()
    assert len(receiver.bodies) == 4
    assert box.sent == []
    assert "the question q1 could not be sent: the receiver answered 500" in caplog.text


@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_a_refusal_is_not_repeated_at_once(receiver, outbox, caplog, status):
    receiver.statuses = [status]
    box = Box(question())
    await outbox(box).send_all()
    assert len(receiver.bodies) == 1
    assert box.sent == []
    assert f"answered {status}" in caplog.text


async def test_redirects_are_not_followed(receiver, outbox, caplog):
    receiver.statuses = [307]
    receiver.extra = f"location: {receiver.url}\r\n"
    box = Box(question())
    await outbox(box).send_all()
    assert len(receiver.bodies) == 1
    assert box.sent == []
    assert "redirects are not followed" in caplog.text


async def test_a_private_address_is_never_reached(receiver, outbox, caplog):
    box = Box(question())
    await outbox(box, allow=[]).send_all()
    assert receiver.bodies == []
    assert box.sent == []
    assert "may not be reached" in caplog.text


async def test_one_that_fails_does_not_hold_up_the_others(receiver, outbox):
    receiver.statuses = [400, 200]
    box = Box(*(question(f"q{number}") for number in range(20)))
    await outbox(box).send_all()
    assert len(box.sent) == 19
    assert box.unsent == []


async def test_a_receiver_that_fails_everything_is_left_alone_for_a_while(receiver, outbox):
    receiver.statuses = [400]
    box = Box(*(question(f"q{number}") for number in range(100)))
    await outbox(box).send_all()
    assert len(receiver.bodies) == webhook.MAX_AT_ONCE
    assert len(box.unsent) == 100 - webhook.MAX_AT_ONCE


@attrs.frozen
class Read:
    """A config under check: notes its problems."""

    config: object
    found: list = attrs.field(factory=list)

    def problem(self, path, text):
        self.found.append((".".join(path), text))

    note = problem


def checked(*, allow=(), **questions):
    from flexchat.config.model import Config, NetworkTable, QuestionsTable

    read = Read(Config(questions=QuestionsTable(**questions), network=NetworkTable(allow=allow)))
    webhook.check_webhook(read)
    return read.found


def test_a_good_webhook_has_no_problem():
    questions = {"webhook": "https://hooks.example.com/x", "public_url": "https://chat.example.com"}
    assert checked(webhook_secret=SECRET, **questions) == []


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://10.1.2.3/x", '[network] allow = ["10.1.2.3:80"]'),
        ("http://localhost:9/x", "does not lead to the public network"),
        ("hooks.example.com", "must begin with http"),
        ("https://user:pw@hooks.example.com/", "user name"),
    ],
)
def test_a_webhook_that_is_never_reached_is_a_problem(url, text):
    ((path, problem),) = checked(webhook=url, webhook_secret=SECRET, public_url="https://chat.example.com")
    assert path == "questions.webhook"
    assert text in problem
    assert "pw" not in problem


def test_an_allowed_private_address_is_no_problem():
    assert (
        checked(
            allow=["10.0.0.0/8"],
            webhook="http://10.1.2.3/x",
            webhook_secret=SECRET,
            public_url="https://a.example",
        )
        == []
    )


def test_a_secret_that_cannot_sign_is_a_problem_and_a_missing_address_a_note():
    found = checked(webhook="https://hooks.example.com/x", webhook_secret="hunter2")
    assert [path for path, _ in found] == ["questions.webhook_secret", "questions"]
    assert "hunter2" not in str(found)
