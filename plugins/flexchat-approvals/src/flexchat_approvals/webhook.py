"""Sends open questions to the webhook of [questions], signed as Standard Webhooks 1.0 prescribes.

Each question is sent at least once while it is open, by any process that uses its store: what has been sent is recorded
there. Its id is that of the message, by which a receiver drops a repeat.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs
from flexchat.plugin import AppInfo, CheckedConfig, Fetcher, FetchError, FetchRequest, ToolRetry, hookimpl
from flexchat.store import StorageError

from .links import PAGE, REPLY, make_token, webhook_key

if TYPE_CHECKING:
    from flexchat import FlexChat
    from flexchat.store import PendingQuestion, SendingJournal

log = logging.getLogger(__name__)

KIND = "question.asked"
RETRY = ToolRetry(max_attempts=4, backoff_ms=1_000)
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 * 1024

AGAIN_S = 60.0
"""The least time after which a question that could not be sent is tried again; longer than its attempts take."""

LOOK_S = 15.0
"""Interval between two looks for questions that other processes have left unsent."""

CLOSING_S = 2.0
"""How long a chat that is closed waits for what is being sent. What is not sent by then is left to other processes."""

MAX_AT_ONCE = 8
_PASSING = frozenset({408, 425, 429})


class WebhookSender:
    """Sends the open questions of a chat's store, beside its turns, while the chat is open."""

    def __init__(self) -> None:
        self._outbox: Outbox | None = None  # once the chat is open, if it has a webhook
        self._wake = asyncio.Event()
        self._is_ending = False
        self._work: asyncio.Task[None] | None = None

    @hookimpl
    def flexchat_app_opened(self, app: AppInfo) -> None:
        """Begin, if there is a webhook."""
        chat: FlexChat = app.chat
        if chat.config.questions.webhook is None:
            return
        if chat.fetcher is None or not hasattr(chat.journal, "take_unsent"):
            missing = "the store of the conversations records no questions" if chat.fetcher else "there is no fetcher"
            log.warning("questions.webhook: nothing is sent, because %s", missing)
            return
        self._outbox = Outbox.of(chat)
        self._look()

    @hookimpl
    async def flexchat_app_closed(self) -> None:
        """Send what there is, within some time, and end."""
        work, self._work, self._outbox = self._work, None, None
        if work is not None and work.get_loop() is asyncio.get_running_loop():
            self._is_ending = True
            self._wake.set()
            await asyncio.wait({work}, timeout=CLOSING_S)
            work.cancel()
            await asyncio.wait({work})

    @hookimpl
    def flexchat_question_asked(self) -> None:
        """Look for it."""
        self._look()

    @hookimpl
    def flexchat_turn_suspended(self) -> None:
        """Look for its questions."""
        self._look()

    def _look(self) -> None:
        if self._outbox is None:
            return
        loop = asyncio.get_running_loop()
        # A program may use one chat on several loops, one after the other: a task ends with its loop.
        if self._work is None or self._work.done() or self._work.get_loop() is not loop:
            self._wake = asyncio.Event()
            # A context of its own: a turn may have opened the chat, and this outlives it.
            self._work = loop.create_task(self._run(self._outbox), context=contextvars.Context())
        self._wake.set()

    async def _run(self, outbox: Outbox) -> None:
        reported = ""
        while not self._is_ending or self._wake.is_set():
            self._wake.clear()
            try:
                await outbox.send_all()
                reported = ""
            except StorageError as error:
                if str(error) != reported:
                    log.warning("questions.webhook: nothing can be sent now: %s", outbox.mask(str(error)))
                reported = str(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if not self._is_ending else 0):
                    await self._wake.wait()


@attrs.frozen(kw_only=True)
class Outbox:
    """The questions of a store that have not been sent, and where to send them.

    Attributes:
        url, secret: The webhook's.
        public_url: The address of the server in links; None for messages without one.
    """

    journal: SendingJournal
    fetcher: Fetcher
    url: str
    secret: str = attrs.field(repr=False)
    public_url: str | None
    mask: Callable[[str], str]

    @classmethod
    def of(cls, chat: FlexChat) -> Outbox:
        """Return that of a chat, which has a webhook."""
        table = chat.config.questions
        return cls(
            journal=cast("SendingJournal", chat.journal),
            fetcher=cast(Fetcher, chat.fetcher),
            url=table.webhook or "",
            secret=table.webhook_secret or "",
            public_url=table.public_url,
            mask=chat.mask,
        )

    async def send_all(self) -> None:
        """Send the questions that are due, until there are none, or none of several could be sent.

        Raises:
            StorageError: They cannot be read, or what has been sent cannot be recorded.
        """
        while unsent := await self.journal.take_unsent(limit=MAX_AT_ONCE, again_s=AGAIN_S):
            async with asyncio.TaskGroup() as group:
                sendings = [group.create_task(self._send(pending)) for pending in unsent]
            sent = [pending for pending, sending in zip(unsent, sendings, strict=True) if sending.result()]
            for pending in sent:
                await self.journal.mark_sent(pending.id, tenant=pending.tenant)
            if not sent:
                return

    async def _send(self, pending: PendingQuestion) -> bool:
        """Send a question, in several attempts; return whether the receiver has it. A failure is logged."""
        body = json.dumps(self.message(pending), separators=(",", ":")).encode()
        attempts = 0
        while True:
            headers = {"content-type": "application/json", **sign(self.secret, pending.id, int(time.time()), body)}
            request = FetchRequest(
                method="POST", url=self.url, headers=headers, body=body, repeatable=True, confidential=True
            )
            why, may_pass, requested_s = await self._attempt(request, is_repeat=attempts > 0)
            if not why:
                return True
            attempts += 1
            wait_s = RETRY.wait_s(attempts, requested_s) if may_pass else None
            if wait_s is None:
                log.warning(
                    "questions.webhook: the question %s could not be sent: %s (it is sent later, while it is open)",
                    pending.id,
                    self.mask(why),
                )
                return False
            await asyncio.sleep(wait_s)

    async def _attempt(self, request: FetchRequest, *, is_repeat: bool) -> tuple[str, bool, float | None]:
        """Return the reason a request failed, or an empty text; whether that may pass; and the requested wait."""
        from flexchat_sdk import retry_after_s

        try:
            answer = await self.fetcher.fetch(
                request, timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER_BYTES, is_repeat=is_repeat
            )
        except FetchError as error:
            return str(error), error.retryable, error.retry_after_s
        status = answer.status
        if 200 <= status < 300:
            return "", False, None
        not_followed = ", and redirects are not followed" if 300 <= status < 400 else ""
        why = f"the receiver answered {status}{not_followed}"
        return why, status >= 500 or status in _PASSING, retry_after_s(answer.headers)

    def message(self, pending: PendingQuestion) -> dict[str, Any]:
        """Return the message about a question: always the same, without secrets of the config."""
        data = masked(pending.to_dict(), self.mask)
        if self.public_url is not None:
            base, token = self.public_url.rstrip("/"), make_token(self.secret, pending)
            data |= {"link": f"{base}/{PAGE}{token}", "reply_url": f"{base}/{REPLY}{token}"}
        return {"type": KIND, "timestamp": pending.asked_at, "data": data}


def sign(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed message. Source: Standard Webhooks 1.0, "Signature scheme"."""
    signed = f"{id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(webhook_key(secret), signed, hashlib.sha256)).decode()
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def check_webhook(read: CheckedConfig) -> None:
    """Report an address of the webhook that is never reached, and a secret that cannot sign."""
    table = read.config.questions
    if table.webhook is None:
        return
    from flexchat_sdk import AddressRule, checked_url

    network = read.config.network
    rule = AddressRule(network.allow, None if network.domains is None else tuple(network.domains))
    try:
        rule.check(checked_url(table.webhook))
    except FetchError as error:
        read.problem(("questions", "webhook"), f"{error}{f'; {error.hint}' if error.hint else ''}")
    try:
        webhook_key(table.webhook_secret or "")
    except ValueError as error:
        new = "python -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\""
        read.problem(("questions", "webhook_secret"), f"{error}; a new one: {new}")
    if table.public_url is None:
        read.note(("questions",), "what is sent to webhook contains no link: public_url is not set")


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Return JSON data with its texts masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(key)): masked(item, mask) for key, item in value.items()}
    return [masked(item, mask) for item in value] if isinstance(value, list | tuple) else value
