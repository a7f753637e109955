"""The conversations of one tenant, for programs and commands, and their export."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ..domain import (
    DEFAULT_TENANT,
    AssistantMessage,
    ConversationInfo,
    ConversationTurn,
    MediaPart,
    RefusalPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..domain.conversation import turn_to_dict
from ..domain.journal import JournaledTurn
from ..domain.prices import Cost
from ..errors import UnknownConversationError
from ..plugin.contracts import ConversationStore, EffectLedger, MediaStore, SeparateJournal, media_store_of

_MAX_RESULT_CHARS = 500
_FENCE = "```"
_PAGE = 200


class Conversations:
    """A tenant's kept conversations; no method sees another tenant's.

    Every method may raise StorageError, and those about one conversation UnknownConversationError.

    Args:
        apart: The ledger of their effects and the journal of their turns, if kept elsewhere: they forget the content
            of a deleted conversation.
        viewer: Returns the name of the principal who looks, and sees its own conversations only; None: all are seen.
    """

    def __init__(
        self,
        store: ConversationStore,
        tenant: str = DEFAULT_TENANT,
        *,
        apart: Sequence[EffectLedger | SeparateJournal] = (),
        viewer: Callable[[str], str | None] = lambda tenant: None,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self._apart = apart
        self._viewer = viewer

    @property
    def media(self) -> MediaStore | None:
        """Where the bytes of media are, once for each tenant; None if they are within the messages."""
        return media_store_of(self.store)

    def of(self, tenant: str) -> Conversations:
        """Return the conversations of another tenant."""
        return Conversations(self.store, tenant, apart=self._apart, viewer=self._viewer)

    async def owner(self, conversation: str) -> str:
        """Return the name of the principal of a conversation's first turn; empty if it has none."""
        first = (await self.store.turns(conversation, tenant=self.tenant))[0].principal
        return first.name if first is not None else ""

    async def _check(self, conversation: str) -> None:
        viewer = self._viewer(self.tenant)
        if viewer is not None and not (viewer and viewer == await self.owner(conversation)):
            raise UnknownConversationError(conversation)

    async def _page(self, search: str | None, limit: int, before: str | None) -> Sequence[ConversationInfo]:
        viewer = self._viewer(self.tenant)
        if viewer is None:
            return await self.store.list(tenant=self.tenant, search=search, limit=limit, before=before)
        own: list[ConversationInfo] = []
        while viewer and len(own) < limit:
            page = await self.store.list(tenant=self.tenant, search=search, limit=_PAGE, before=before)
            for info in page:
                with contextlib.suppress(UnknownConversationError):  # deleted meanwhile
                    own += [info] if await self.owner(info.id) == viewer else []
                if len(own) == limit:
                    break
            if len(page) < _PAGE:
                break
            before = page[-1].id
        return own

    async def cost(self, *, tenant: str | None = None) -> Cost:
        """Add up the cost of all kept conversations of a tenant, at the prices of then; those deleted are not in it."""
        costs: list[Cost] = []
        before = None
        while True:
            page = await self.of(tenant or self.tenant).list(limit=_PAGE, before=before)
            unknown = Cost(unpriced=("the store of the conversations adds up no costs",))
            costs += [unknown if info.cost is None else info.cost for info in page]
            if len(page) < _PAGE:
                return Cost.total(costs)
            before = page[-1].id

    async def list(self, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return the conversations, most recently used first; ``before`` is the last id of the page before."""
        return await self._page(None, limit, before)

    async def search(self, words: str, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return the conversations with a turn or a title that contains all these words."""
        return await self._page(words, limit, before)

    async def first_turns(self, turns: Iterable[JournaledTurn], words: str = "") -> Sequence[JournaledTurn]:
        """Return the turns that begin conversations which are in no list: none of their turns has ended.

        Args:
            turns: Unfinished ones that the caller may see, the newest first.
            words: Only those whose message contains all of them.
        """
        found = []
        for turn in {turn.conversation: turn for turn in turns if turn.conversation}.values():
            try:
                await self.store.get(turn.conversation, tenant=self.tenant)
            except UnknownConversationError:
                found += [turn] if all(word in turn.message.casefold() for word in words.casefold().split()) else []
        return found

    async def get(self, conversation: str) -> ConversationInfo:
        """Return the summary of a conversation."""
        await self._check(conversation)
        return await self.store.get(conversation, tenant=self.tenant)

    async def turns(self, conversation: str, *, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return a conversation's turns, oldest first; with ``last``, only that many of the latest."""
        await self._check(conversation)
        return await self.store.turns(conversation, tenant=self.tenant, last=last)

    async def rename(self, conversation: str, title: str) -> None:
        """Rename a conversation."""
        await self._check(conversation)
        await self.store.rename(conversation, title, tenant=self.tenant)

    async def delete(self, conversation: str) -> None:
        """Delete a conversation with all its turns."""
        await self._check(conversation)
        await self.store.delete(conversation, tenant=self.tenant)
        for each in self._apart:
            await each.forget_conversation(conversation, tenant=self.tenant)

    async def export_markdown(self, conversation: str) -> str:
        """Return a conversation as Markdown, for people: its messages, and the tools that ran."""
        return to_markdown(await self.get(conversation), await self.turns(conversation))

    async def export_json(
        self, conversation: str, *, media: MutableMapping[str, bytes] | None = None
    ) -> dict[str, Any]:
        """Return all stored data of a conversation, as JSON data.

        Args:
            media: Gets the bytes of media by their digests, which stand for them; without it, they become Base64.
        """
        return to_json(await self.get(conversation), await self.turns(conversation), media)


def to_json(
    info: ConversationInfo, turns: Sequence[ConversationTurn], media: MutableMapping[str, bytes] | None = None
) -> dict[str, Any]:
    """Return all stored data of a conversation as JSON data; media as in export_json."""
    turn_data = [{**turn_to_dict(turn, media), "status": turn.status, "cost": turn.cost.to_dict()} for turn in turns]
    return {**info.to_dict(), "cost": Cost.total(turn.cost for turn in turns).to_dict(), "turns": turn_data}


def to_markdown(info: ConversationInfo, turns: Sequence[ConversationTurn]) -> str:
    """Return a conversation as Markdown, for people: its messages, the tools that ran, the documents that were shown.

    A model's thinking, and data only its provider can read, are left out.
    """
    blocks = [f"# {info.title or info.id}", f"{to_the_minute(info.started_at)} to {to_the_minute(info.used_at)}"]
    for turn in turns:
        blocks += _blocks(turn)
    if any(turn.rounds for turn in turns):
        blocks.append(f"*Cost: {_cost(turns)}*")
    return "\n\n".join(blocks) + "\n"


def _cost(turns: Sequence[ConversationTurn]) -> str:
    total = Cost.total(turn.cost for turn in turns)
    rules = cost_by_rule(turns)
    parts = [f"{name}: {cost}" for name, (_, cost) in rules.items()] if len(rules) > 1 else []
    return "; ".join([", ".join([str(total), *parts]), *total.unpriced])


def cost_by_rule(turns: Sequence[ConversationTurn]) -> dict[str, tuple[int, Cost]]:
    """Return the number and cost of each rule's turns: by its name, or its number; "no rule" for none."""
    by_rule: dict[str, list[Cost]] = {}
    for turn in turns:
        name = turn.rule_name or ("no rule" if turn.rule is None else f"rule {turn.rule + 1}")
        by_rule.setdefault(name, []).append(turn.cost)
    return {name: (len(costs), Cost.total(costs)) for name, costs in by_rule.items()}


def _blocks(turn: ConversationTurn) -> Iterator[str]:
    speaker = " / ".join(dict.fromkeys(name for name in (turn.llm, turn.model) if name)) or "assistant"
    spoke = False
    for message in turn.messages:
        if isinstance(message, UserMessage):
            yield f"## user{f', {to_the_minute(turn.at)}' if turn.at else ''}"
            yield from filter(None, [message.content.strip(), *map(_medium, message.media)])
        elif isinstance(message, AssistantMessage):
            if not spoke:
                yield f"## {speaker}"
            spoke = True
            yield from filter(None, map(_part, message.parts))
        elif isinstance(message, ToolMessage):
            yield _fenced(_result(message))
            yield from map(_medium, message.media)
    if turn.status != "done":
        error = " ".join(turn.error.split()).replace("*", r"\*")
        yield "*(stopped before it was done)*" if turn.status == "cancelled" else f"*(failed: {error})*"
    if turn.citations:
        yield "\n".join(f"- {c.title} ({c.source})" if c.source else f"- {c.title}" for c in turn.citations)


def _part(part: Any) -> str:
    match part:
        case TextPart() | RefusalPart():
            return part.text.strip()
        case ToolCall():
            return _fenced(f"{part.name}({_arguments(part)})")
        case MediaPart():
            return _medium(part)
    return ""


def _result(message: ToolMessage) -> str:
    if message.is_error:
        return f"{message.name} failed: {_shortened(_failure(message.content))}"
    return f"{message.name}: {_shortened(message.content)}"


def _failure(content: str) -> str:
    """Return the error and the hint from a failed tool's JSON, or the content if it is something else."""
    try:
        failure = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(failure, dict) or not isinstance(failure.get("error"), str):
        return content
    hint = failure.get("hint")
    return f"{failure['error']}\n{hint}" if isinstance(hint, str) and hint else failure["error"]


def to_the_minute(at: str) -> str:
    """Return an ISO 8601 time for people: 2026-11-22 17:27."""
    return at[:16].replace("T", " ")


def _arguments(call: ToolCall) -> str:
    if not isinstance(call.arguments, Mapping):
        return call.raw_arguments or ""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())


def _medium(part: MediaPart) -> str:
    return f"[{part.kind}: {part.name or part.url or part.mime_type}]"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_RESULT_CHARS else text[: _MAX_RESULT_CHARS - 2] + " …"


def _fenced(text: str) -> str:
    """Return a code block that the text cannot end."""
    fence = _FENCE
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
