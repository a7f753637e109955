"""The hook that chooses what is sent: it works out the budget, makes the plan or repeats it, and records it."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat import RequestRefusedError, ToolMessage, Turn, TurnInfo, UserMessage
from flexchat.plugin import FittedHistory, HistoryRequest, hookimpl

from .plan import Limits, Outline, Plan, apply, left_out, plan
from .policy import apply_policy, from_record, to_record
from .settings import History, Policy, load_policy, override
from .sizes import STEPS, size_of, sizes_of_tools, tokens_per_byte
from .summaries import BEGINNING, summary_of

DEFAULT_ANSWER = 4_096
"""Tokens kept free for an answer without max_tokens; at most a quarter of the window."""
SMALLER = 0.6
"""The part of a request that the service refused as too long which is sent next."""
SKILLS = "*load_skill"
"""Tools whose results are pinned in any case: a skill that is loaded is an instruction."""
MAX_CONVERSATIONS = 10_000
"""Conversations whose tokens per byte are remembered."""

_Place = tuple[str, str, str, str]
"""A tenant, a conversation, an entry of llms, a model."""
_FRONTIERS = tuple(field.name for field in attrs.fields(Plan))


class HistoryFitter:
    """Chooses what is sent of each conversation of one chat.

    Args:
        table: The config's; its rules may override it.
        policy: A function given in code, in place of the config's.
    """

    def __init__(self, table: History, policy: Policy | None = None) -> None:
        self._table, self._policy = table, policy
        self._settings: dict[int, History] = {}
        self._tools: tuple[Any, int] = ((), 0)
        self._ratios: OrderedDict[_Place, float] = OrderedDict()
        self._caps: OrderedDict[_Place, int] = OrderedDict()

    @hookimpl
    async def flexchat_fit_history(self, history: HistoryRequest) -> FittedHistory:
        """Leave out what does not fit."""
        settings = self._settings_of(*history.rule)
        messages, own_from = history.request.messages, history.own_from
        policy = self._policy or (load_policy(settings.policy) if settings.policy is not None else None)
        options = history.request.options
        fixed = len(history.request.system.encode()) + self._size_of_tools(options.tools)
        if options.response_format is not None and options.response_format.schema is not None:
            fixed += sizes_of_tools([options.response_format.schema])
        limits = Limits(
            keep_last=settings.keep_last if policy is None else None,
            keep_turns=settings.whole_turns,
            has_stubs=settings.compact != "drop",
            pins=(SKILLS, *settings.pin, *(re.sub(r"[^\w*?\[\]-]", "_", pin) for pin in settings.pin)),
            is_urgent=history.is_too_long,
        )
        record: dict[str, Any] = {}
        recorded = history.recorded
        # What was recorded counts: the settings may have changed since.
        if policy is not None if recorded is None else "policy" in recorded:
            if type(messages[own_from]) is ToolMessage:  # the turn that made these calls goes on
                own_from = Outline(messages, own_from, limits).starts[-1]
            before = messages[:own_from]
            if recorded is not None:
                sent = from_record(before, recorded["policy"])
            else:
                assert policy is not None
                name = settings.policy or str(getattr(policy, "__qualname__", type(policy).__name__))
                sent = await apply_policy(policy, name, before, limits)
            record["policy"] = to_record(before, sent)
            messages, own_from = (*sent, *messages[own_from:]), len(sent)
        outline = Outline(messages, own_from, limits)
        if recorded is not None:
            chosen, ratio, most = Plan(**recorded.get("plan", {})), recorded["ratio"], recorded["max_tokens"]
        else:
            info = history.request.info
            place = info.tenant, info.conversation or info.id, history.request.llm, history.request.model
            most = min(await self._max_tokens(settings, history), self._caps.get(place, sys.maxsize))
            ratio = await self._ratio(history, outline.ends[-1] > most)
            limits = attrs.evolve(limits, budget=max(int(most / ratio) - fixed, 1))
            chosen = plan(outline, limits)
            if history.is_too_long:
                refused = apply(outline, chosen, limits, can_read_on=history.can_read_on)
                smaller = int(sum(map(size_of, refused)) * SMALLER)
                chosen = plan(outline, attrs.evolve(limits, budget=max(smaller, 1)))
                # The next requests of this conversation begin with what was accepted.
                _remember(self._caps, place, int((smaller + fixed) * ratio) + 1)
        summary, why = dict[str, Any](), ""
        if recorded is not None:
            summary = recorded.get("summary", {})
        elif settings.compact == "summarise" and chosen.dropped_to > chosen.kept_from:
            chunk = max(int(most / ratio) * 3 // 4, 1)
            made = await summary_of(history, messages, chosen.dropped_to, settings, chunk)
            why = made.why
            if made.text:
                summary = {"to": chosen.dropped_to, "text": made.text, "digest": made.digest}
        fitted = tuple(apply(outline, chosen, limits, can_read_on=history.can_read_on))
        if summary:
            fitted = (UserMessage(BEGINNING + summary["text"]), *fitted)
            record["summary"] = summary
        size = fixed + sum(map(size_of, fitted))
        record |= {"bytes": size, "ratio": ratio, "max_tokens": most, "tokens_at_most": int(size * ratio) + 1}
        omitted = left_out(outline, chosen, limits)
        if "policy" in record:
            sent_ids = {id(message) for message in messages}
            count = sum(id(message) not in sent_ids for message in history.request.messages)
            if count:
                omitted.insert(0, {"what": "messages", "count": count, "why": "policy"})
        if not chosen.is_empty:
            record["plan"] = {name: at for name in _FRONTIERS if (at := getattr(chosen, name))}
        if why:
            omitted.append({"what": "summary", "count": 1, "why": why})
        if omitted:
            record["left_out"] = omitted
        return FittedHistory(messages=fitted, record=record)

    @hookimpl
    def flexchat_turn_finished(self, info: TurnInfo, turn: Turn) -> None:
        """Remember the tokens per byte that the conversation had."""
        llm, model = turn.response.llm, turn.response.model
        if (ratio := tokens_per_byte(turn.response.rounds, llm, model)) is not None:
            self._remember((info.tenant, info.conversation or "", llm, model), ratio)

    def _settings_of(self, index: int, rule: Any) -> History:
        settings = self._settings.get(index)
        if settings is None:
            settings, _ = override(self._table, rule.history)
            settings = self._settings[index] = settings or self._table
        return settings

    def _size_of_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        if self._tools[0] is not tools:
            self._tools = (tools, sizes_of_tools(tools))
        return self._tools[1]

    async def _max_tokens(self, settings: History, history: HistoryRequest) -> int:
        if isinstance(settings.max_tokens, int):
            return settings.max_tokens
        request = history.request
        price = await history.llm.find_price(request.model)
        most = auto_limit(None if price is None else price.window, request.options.max_tokens)
        if most is None:
            raise RequestRefusedError(unknown_window(request.llm, request.model))
        return most

    async def _ratio(self, history: HistoryRequest, is_needed: bool) -> float:
        """Return the tokens per byte to reckon with: 1 until a service has reported how many there were."""
        request = history.request
        key = request.info.tenant, request.info.conversation or "", request.llm, request.model
        ratio = tokens_per_byte(history.rounds, request.llm, request.model)
        if ratio is None and key not in self._ratios and is_needed:
            ratio = tokens_per_byte(await history.earlier_rounds(), request.llm, request.model)
        if ratio is not None:
            self._remember(key, ratio)
        return self._ratios.get(key, 1.0)

    def _remember(self, key: _Place, ratio: float) -> None:
        known = self._ratios.get(key)
        # A smaller one counts only if it is clearly so: each change moves what is left out.
        if known is None or ratio > known or ratio < known - 1.5 / STEPS:
            _remember(self._ratios, key, ratio)


def _remember(known: OrderedDict[_Place, Any], place: _Place, value: Any) -> None:
    known[place] = value
    known.move_to_end(place)
    while len(known) > MAX_CONVERSATIONS:
        known.popitem(last=False)


def auto_limit(window: int | None, answer: int | None) -> int | None:
    """Return the tokens of a request for a window; None if that is unknown.

    Args:
        answer: max_tokens of the answer.
    """
    if window is None:
        return None
    return max(window - (min(DEFAULT_ANSWER, window // 4) if answer is None else answer), 1)


def unknown_window(llm: str, model: str) -> str:
    """Return the text of the error for a model of unknown size."""
    return (
        f'max_tokens = "auto" in [history] needs the window of {llm}/{model}, which is not known: set max_tokens, or '
        f'window in [llms.{llm}.prices."{model}"]'
    )
