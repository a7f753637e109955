"""flexchat batch: many prompts, their answers in the same order; an interrupted batch continues where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import attrs
import click
from flexchat.app import FlexChat
from flexchat.domain import ChatRequest, Turn
from flexchat.domain.codec import message_to_dict
from flexchat.domain.prices import Cost
from flexchat.domain.text import counted
from flexchat.errors import FlexChatError, ProviderAuthError, UnknownConversationError
from flexchat.request import Asked, read_request
from flexchat.tools.cost import tokens_of

from . import standard_input
from .answering import Answering, answering_options
from .as_in_llm import AskingCommand
from .batch_limit import CostLimit, Dollars, LimitReachedError, refuse_unpriced
from .batch_progress import Progress, progress_of
from .batch_prompts import Prompt, read_prompts
from .context import CommandContext
from .conversations_store import open_store, tenant_option
from .opening import demo_option, report_notes, require_config
from .parameters import argument
from .prompts import variables_option
from .usage import FAILED, OK

_MAX_BYTES = 256 * 1024 * 1024


@click.command(cls=AskingCommand)
@argument("file", help='the prompts, one JSON value per line: a text, or {"message": …, "id": …}; - for standard input')
@click.option(
    "--parallel",
    metavar="N",
    type=click.IntRange(min=1),
    default=4,
    help="prompts answered at a time (default: 4); max_parallel in the config limits each service",
)
@click.option(
    "--max-cost",
    metavar="DOLLARS",
    type=Dollars(),
    help="begin no further prompt once the answers have cost this much; the same command with more continues",
)
@click.option("--estimate", is_flag=True, help="estimate the cost of reading the prompts, and ask nothing")
@click.option("--fresh", is_flag=True, help="ask everything again, including what an earlier run has answered")
@click.option("--keep/--no-keep", default=True, help="keep what is needed to continue (default), or nothing")
@answering_options
@variables_option
@tenant_option
@demo_option
@click.pass_obj
def batch(
    context: CommandContext,
    file: str,
    answering: Answering,
    variables: Mapping[str, Any],
    parallel: int,
    max_cost: Decimal | None,
    estimate: bool,
    fresh: bool,
    keep: bool,
    tenant: str,
) -> int:
    """Answer many prompts, in order; after an interruption, the same command continues.

    One line of JSON per prompt goes to standard output, in the order of the prompts: {"id", "answer", …} or {"id",
    "error", …}; with --json each has the whole turn. If the batch is cut off, the same command goes on: what was
    answered is not asked again, and no tool runs twice.
    """
    if file == "-":
        source, text = "standard input", standard_input.read_text(context.terminal)
    else:
        source, text = file, standard_input.read_text_file(file, file, most=_MAX_BYTES)
    chat = answering.open(context)
    if answering.model is None:
        require_config(context)
        report_notes(chat, context)

    def read(message: Any, fields: Mapping[str, Any]) -> ChatRequest:
        own = fields.get("variables") or {}
        values = {**variables, **own} if isinstance(own, Mapping) else own
        if isinstance(message, str) and isinstance(values, Mapping):
            message, values = answering.render(message, values, context)
        settings: Any = {**answering.message_options, **fields, "variables": values}
        return read_request(
            message, settings, message_chars=chat.config.limits.message_chars, stores=chat.stores, variables={}
        )

    prompts = read_prompts(text, source, read)
    if estimate:
        asyncio.run(_estimate(chat, prompts, context))
        return OK
    config = context.config_file()
    if max_cost is not None:
        refuse_unpriced(chat, is_configured=config is not None)
    limit = CostLimit(max_cost) if max_cost is not None else None
    where = [os.path.realpath(file) if file != "-" else text, str(config and os.path.realpath(config)), tenant]
    where += [json.dumps([attrs.asdict(answering), variables], sort_keys=True, default=str)]
    name = hashlib.sha256("\0".join(where).encode(errors="surrogatepass")).hexdigest()[:32]
    with contextlib.ExitStack() as closing:
        progress = closing.enter_context(progress_of(name, fresh=fresh)) if keep else None
        run = _Batch(chat=chat, context=context, prompts=prompts, progress=progress, tenant=tenant, limit=limit)
        return asyncio.run(run.run(parallel))


@attrs.define(kw_only=True, eq=False)
class _Batch:
    """One run of the command."""

    chat: FlexChat
    context: CommandContext
    prompts: Sequence[Prompt]
    progress: Progress | None
    tenant: str
    limit: CostLimit | None
    written: int = 0
    failed: int = 0
    earlier: int = 0
    costs: list[Cost] = attrs.field(factory=list)

    async def run(self, parallel: int) -> int:
        """Write all answers; return the exit status."""
        async with contextlib.AsyncExitStack() as closing:
            await closing.enter_async_context(self.chat)
            if self.progress is not None:
                self.chat.keep_in(await closing.enter_async_context(open_store(self.context)))
            answers = await closing.enter_async_context(
                contextlib.aclosing(in_order(self.prompts, self._ask, parallel))
            )
            try:
                async for prompt, outcome in answers:
                    if isinstance(outcome, LimitReachedError):
                        break
                    self._write(prompt, outcome)
            finally:
                self._report()
        if self.failed or self.written < len(self.prompts):
            return FAILED
        if self.progress is not None:
            self.progress.done()
        return OK

    async def _ask(self, prompt: Prompt) -> Turn:
        if self.limit is not None and not (self.limit.why and await self._is_answered(prompt)):
            self.limit.refuse_more()
        place: Asked = {"tenant": self.tenant}
        if self.progress is not None:
            name = self.progress.name(prompt)
            place |= {"conversation": name, "idempotency_key": name}
        try:
            turn = await self.chat.respond(prompt.request, **place)
        except FlexChatError as error:
            if self.limit is not None:
                self.limit.count(error.turn)
            raise
        if self.limit is not None:
            self.limit.count(turn)
        return turn

    async def _is_answered(self, prompt: Prompt) -> bool:
        """Return whether an earlier run has answered a prompt, so that its answer costs nothing any more."""
        if self.progress is None or self.chat.conversations is None:
            return False
        try:
            name = self.progress.name(prompt)
            return (await self.chat.conversations.of(self.tenant).get(name)).status == "done"
        except UnknownConversationError:
            return False

    def _write(self, prompt: Prompt, outcome: Turn | FlexChatError) -> None:
        if isinstance(outcome, ProviderAuthError):  # every other prompt would be refused as well
            raise outcome
        self.written += 1
        turn = outcome.turn if isinstance(outcome, FlexChatError) else outcome
        if turn is not None:
            self.costs.append(turn.cost)
        if isinstance(outcome, FlexChatError):
            self.failed += 1
            line: dict[str, Any] = {"id": prompt.id, "error": str(outcome), "type": type(outcome).__name__}
        else:
            self.earlier += outcome.is_repeat
            line = {"id": prompt.id, **({"turn": outcome.to_dict()} if self.context.json else _result_fields(outcome))}
        self.context.terminal.json(line, one_line=True)
        failed = f", {self.failed} failed" if self.failed else ""
        self.context.terminal.progress(self.written, len(self.prompts), f"answered{failed}")

    def _report(self) -> None:
        all_of_them = len(self.prompts)
        parts = [f"{self.written - self.failed} of {counted(all_of_them, 'prompt')} answered"]
        parts += [f"{self.earlier} of them by an earlier run"] if self.earlier else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [Cost.total(self.costs).explained()] if self.costs else []
        text = ", ".join(parts)
        limit = self.limit if self.written < all_of_them else None
        text += f"; {limit.why}" if limit is not None and limit.why else ""
        if self.progress is not None and (self.failed or self.written < all_of_them):
            text += f"; the same command{limit.advice if limit is not None else ''} goes on from there"
        self.context.terminal.say(text, "dim")


async def _estimate(chat: FlexChat, prompts: Sequence[Prompt], context: CommandContext) -> None:
    """Estimate the cost of reading the first request of each prompt, by the model that would answer."""
    tokens_by_model: dict[tuple[str, str], list[int]] = {}
    async with chat:
        for prompt in prompts:
            request = await chat.preview(prompt.request)
            sent = [message_to_dict(message) for message in request.messages] + [*request.options.tools]
            tokens_by_model.setdefault((request.llm, request.model), []).append(tokens_of(sent))
    rows: list[dict[str, Any]] = []
    for (llm, model), tokens in tokens_by_model.items():
        cost = chat.llms[llm].cost_of_reading(model, sum(tokens))
        rows.append({"llm": llm, "model": model, "prompts": len(tokens), "input_tokens": sum(tokens), "cost": cost})
    total = Cost.total(row["cost"] for row in rows)
    if context.json:
        data = [{**row, "cost": row["cost"].to_dict()} for row in rows]
        context.terminal.json({"prompts": len(prompts), "models": data, "cost": total.to_dict()})
        return
    for row in rows:
        size = f"{counted(row['prompts'], 'prompt')}, about {counted(row['input_tokens'], 'token')}"
        context.terminal.out(f"{row['llm']}/{row['model']}: {size} to read, {row['cost']}")
    if len(rows) > 1:
        context.terminal.out(f"together: {total}")
    context.terminal.say("an estimate; answers, and further requests after tool calls, come on top", "dim")


async def in_order(
    prompts: Sequence[Prompt], ask: Callable[[Prompt], Awaitable[Turn]], parallel: int
) -> AsyncGenerator[tuple[Prompt, Turn | FlexChatError], None]:
    """Yield each prompt with its turn, or the error it ended with, in the order of the prompts.

    Args:
        parallel: How many are asked at a time.
    """
    slots = asyncio.Semaphore(parallel)

    async def one(prompt: Prompt) -> Turn | FlexChatError:
        async with slots:
            try:
                return await ask(prompt)
            except FlexChatError as error:
                return error

    tasks = deque((prompt, asyncio.create_task(one(prompt))) for prompt in prompts)
    try:
        while tasks:
            prompt, task = tasks[0]
            await asyncio.wait({task})  # to await the task itself would cancel it first, and start another
            tasks.popleft()
            yield prompt, task.result()
    finally:
        for _, task in tasks:
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)


def _result_fields(turn: Turn) -> dict[str, Any]:
    answer: dict[str, Any] = {"answer": turn.content}
    if turn.response.parsed is not None:
        answer["parsed"] = turn.response.data
    answer |= {"llm": turn.response.llm, "model": turn.response.model}
    usage = turn.response.usage
    if usage is not None:
        answer["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if turn.response.tool_calls:
        answer["tools"] = [record.tool for record in turn.response.tool_calls]
    return answer
