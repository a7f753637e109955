"""flexchat batch: many prompts, their answers in the same order; an interrupted batch continues where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import attrs
import click
from flexchat.app import FlexChat
from flexchat.domain import ChatRequest, Turn
from flexchat.domain.codec import message_to_dict
from flexchat.domain.prices import Cost, dollars
from flexchat.domain.text import counted
from flexchat.errors import (
    ChatRequestError,
    ConfigError,
    FlexChatError,
    Problem,
    ProviderAuthError,
    StorageError,
    SuspendedTurnError,
    UnknownConversationError,
    UnknownNameError,
    did_you_mean,
)
from flexchat.files import data_folder
from flexchat.request import RequestOptions, read_request
from flexchat.turn.matching import needs_of, topic_model
from flexchat.turn.recording import new_conversation_id

from . import standard_input
from .answering import PER_MESSAGE, Answering, answering_options
from .as_in_llm import AskingCommand
from .context import FAILED, OK, CommandContext, UsageError, demo_option, report_notes, require_config
from .conversations_store import open_store, tenant_option
from .parameters import argument
from .prompts import variables_option
from .tool_costs import tokens_of

KEYS = ("message", "id", "history", "topic", "collections", "variables", "response_format", *PER_MESSAGE)
"""What a line may have; all but ``message`` and ``id`` as FlexChat.respond takes them."""


_KINDS = {int: "a number", float: "a number", bool: "true or false", type(None): "null", list: "a list"}


@attrs.frozen(kw_only=True)
class Prompt:
    """One line.

    Attributes:
        line: Its number in the file, from 1.
        id: Id of its answer: the line's own ``id``, or its number.
        digest: 32 hexadecimal digits unique to this line of the file, at any place in it.
    """

    line: int
    id: str | int
    request: ChatRequest
    digest: str


def read_prompts(text: str, source: str, read: Callable[..., ChatRequest]) -> list[Prompt]:
    """Return the prompts; blank lines are passed over.

    Args:
        source: Name of the text in errors.
        read: Makes a request of a message and the keywords of respond.

    Raises:
        ConfigError: Everything that is wrong with the lines.
    """
    prompts, problems, seen, first_with_id = [], [], Counter[str](), dict[str | int, int]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = _fields(line)
            id = _id(fields.pop("id", number))
            message = fields.pop("message")
            request = read(message, fields)
        except (ChatRequestError, UnknownNameError, UsageError) as error:
            problems.append(Problem(path="", text=str(error), source=source, line=number))
            continue
        if (first := first_with_id.setdefault(id, number)) != number:
            text_of = f"the id {json.dumps(id)} is already that of line {first}"
            problems.append(Problem(path="", text=text_of, source=source, line=number))
        seen[line.strip()] += 1
        unique = f"{seen[line.strip()]} {line.strip()}".encode(errors="surrogatepass")
        prompts.append(Prompt(line=number, id=id, request=request, digest=hashlib.sha256(unique).hexdigest()[:32]))
    if problems:
        raise ConfigError(problems)
    return prompts


def _fields(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise UsageError(f'is not JSON ({error}); a prompt is a text in quotes, or {{"message": "…"}}') from None
    except RecursionError:
        raise UsageError("is nested too deeply") from None
    if isinstance(value, str):
        return {"message": value}
    if not isinstance(value, dict):
        raise UsageError(f'is {_KINDS[type(value)]}; a prompt is a text in quotes, or {{"message": "…"}}')
    for name in value:
        if name not in KEYS:
            raise UsageError(f"has the unknown key '{name}'{did_you_mean(name, KEYS)}")
    if "message" not in value:
        raise UsageError("has no 'message'")
    return value


def _id(id: Any) -> str | int:
    if isinstance(id, str | int) and not isinstance(id, bool):
        return id
    raise UsageError(f"'id' is a text or a whole number, not {json.dumps(id)[:40]}")


_KEPT_S = 23 * 3600
"""Idempotency keys are remembered for 24 hours; a batch that continues needs some of them."""


@attrs.frozen(kw_only=True)
class Progress:
    """An attempt at a batch, over as many runs of the command as it takes.

    Attributes:
        run: 8 hexadecimal digits; the conversations and keys of its prompts begin with it.
    """

    run: str
    _file: Path

    def name(self, prompt: Prompt) -> str:
        """Return the conversation and the key of a prompt."""
        return f"batch-{self.run}-{prompt.digest}"

    def done(self) -> None:
        """Forget the attempt: the same command then asks everything again."""
        self._file.unlink(missing_ok=True)


@contextlib.contextmanager
def progress_of(name: str, *, fresh: bool) -> Iterator[Progress]:
    """Open the stored progress of a batch, locked for this process.

    Args:
        name: 32 hexadecimal digits that are the same for the same command.
        fresh: Forget an earlier attempt.

    Raises:
        UsageError: Another process runs this batch, or the earlier attempt is too old to be continued.
        StorageError: The data folder cannot be written.
    """
    folder = data_folder() / "batches"
    with contextlib.ExitStack() as closing:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            closing.enter_context(_alone(folder / f"{name}.lock"))
            progress = _begin_or_continue(folder / f"{name}.json", fresh=fresh)
        except OSError as error:
            raise StorageError(f"{error.filename or folder}: {error.strerror or error}") from None
        yield progress


def _begin_or_continue(file: Path, *, fresh: bool) -> Progress:
    began: tuple[str, float] | None = None
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # cut off while it was written
        data = json.loads(file.read_text(encoding="utf-8"))
        began = str(data["run"]), float(data["began_at"])
    if began is None or fresh:
        run = new_conversation_id()[:8]
        file.write_text(json.dumps({"run": run, "began_at": time.time()}), encoding="utf-8")
        return Progress(run=run, file=file)
    run, began_at = began
    ago_s = time.time() - began_at
    if ago_s > _KEPT_S:
        raise UsageError(
            f"this batch was begun {ago_s / 3600:.0f} hours ago, and what was done is known for 24 hours only: "
            "--fresh asks everything again"
        )
    return Progress(run=run, file=file)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: two that run at once answer the same prompts once, by their keys
        yield
        return
    number = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("this batch is already running, in another process") from None
        yield
    finally:
        os.close(number)


_MAX_DOLLARS = Decimal(1_000_000_000)


def _dollars(value: str) -> Decimal:
    """Return an amount of US dollars above 0, for click."""
    with contextlib.suppress(InvalidOperation):
        amount = Decimal(value)
        if amount.is_finite() and 0 < amount <= _MAX_DOLLARS:
            return amount
    raise click.BadParameter(f"'{value}' is not an amount of US dollars above 0, such as 0.50")


class LimitReachedError(FlexChatError):
    """A prompt was not sent: the batch has reached its limit."""


class CostLimit:
    """The running total of the cost of turns, and the limit at which no further turn may begin.

    Args:
        most: The limit in US dollars; None for none.
    """

    def __init__(self, most: Decimal | None) -> None:
        self._most = most
        self._spent = Decimal(0)
        self._unknown = ""

    def count(self, turn: Turn | None) -> None:
        """Add what a turn cost. One that failed may have cost more than is known, which ends nothing."""
        if turn is None:
            return
        cost = turn.cost
        self._spent += cost.amount or 0
        if turn.status == "done" and cost.unpriced:
            self._unknown = cost.unpriced[0]

    @property
    def why(self) -> str:
        """The reason against a further turn; empty if one may begin."""
        if self._most is None:
            return ""
        if self._unknown:
            return f"stopped, as it is not known what an answer cost: {self._unknown}"
        if self._spent >= self._most:
            return f"stopped at --max-cost {self._most}, with ${dollars(self._spent)} spent"
        return ""

    @property
    def advice(self) -> str:
        """How to continue with the same command, after a space; empty if nothing has to change."""
        if not self.why:
            return ""
        return " without --max-cost" if self._unknown else " with a higher --max-cost"


def refuse_unpriced(chat: FlexChat, *, is_configured: bool) -> None:
    """Refuse a limit that cannot be kept.

    Args:
        is_configured: Whether a configuration names the model; otherwise the command line does.

    Raises:
        UsageError: A model that may be asked has no price.
    """
    unpriced = []
    for llm, model in _possible_models(chat):
        service, name = chat.llms.resolve(llm, model)
        prices = service.price_of(name)
        if prices is None or prices.price is None:
            unpriced.append((llm, name))
    if not unpriced:
        return
    names = ", ".join(f"{llm}/{model}" for llm, model in dict.fromkeys(unpriced))
    llm, model = unpriced[0]
    where = f'in the config: [llms.{llm}] prices."{model or "*"}" = {{ input = …, output = … }}'
    if not is_configured:
        where = f"""here: -o prices='{{"{model or "*"}": {{"input": …, "output": …}}}}'"""
    raise UsageError(
        f"--max-cost cannot be kept: no price is known for {names}. Set it {where}, in US dollars per million tokens; "
        "both are 0 if it costs nothing"
    )


def _possible_models(chat: FlexChat) -> Iterator[tuple[str, str | None]]:
    config = chat.config
    for rule in config.responses:
        yield rule.llm, rule.model
        yield from ((name, None) for name in rule.fallback)
    needs = needs_of(config, chat.stores)
    choices = [topic_model(config)] if needs.topic or needs.documents or needs.categories else []
    choices += [config.intent.choice] if needs.categories else []
    for choice in choices:
        if choice is not None and getattr(chat.llms[choice.llm].provider, "follows_instructions", True):
            yield choice.llm, choice.model


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
    type=_dollars,
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
    where = [os.path.realpath(file) if file != "-" else text, str(config and os.path.realpath(config)), tenant]
    where += [json.dumps([attrs.asdict(answering), variables], sort_keys=True, default=str)]
    name = hashlib.sha256("\0".join(where).encode(errors="surrogatepass")).hexdigest()[:32]
    with contextlib.ExitStack() as closing:
        progress = closing.enter_context(progress_of(name, fresh=fresh)) if keep else None
        run = _Batch(
            chat=chat, context=context, prompts=prompts, progress=progress, tenant=tenant, limit=CostLimit(max_cost)
        )
        return asyncio.run(run.run(parallel))


@attrs.define(kw_only=True, eq=False)
class _Batch:
    """One run of the command."""

    chat: FlexChat
    context: CommandContext
    prompts: Sequence[Prompt]
    progress: Progress | None
    tenant: str
    limit: CostLimit
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
        if self.limit.why and not await self._is_answered(prompt):
            raise LimitReachedError(self.limit.why)
        place: RequestOptions = {"tenant": self.tenant}
        if self.progress is not None:
            name = self.progress.name(prompt)
            place |= {"conversation": name, "idempotency_key": name}
        try:
            turn = await self.chat.respond(prompt.request, **place)
        except FlexChatError as error:
            self.limit.count(error.turn)
            raise
        self.limit.count(turn)
        if turn.status in ("suspended", "accepted"):  # the same command resumes it
            waits = SuspendedTurnError(turn.id)
            waits.turn = turn
            raise waits
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
        text, is_whole = ", ".join(parts), self.written == all_of_them
        text += f"; {self.limit.why}" if self.limit.why and not is_whole else ""
        if self.progress is not None and (self.failed or not is_whole):
            text += f"; the same command{'' if is_whole else self.limit.advice} goes on from there"
        self.context.terminal.say(text, "dim")


async def _estimate(chat: FlexChat, prompts: Sequence[Prompt], context: CommandContext) -> None:
    """Estimate the cost of reading the first request of each prompt, by the model that would answer."""
    tokens_by_model: dict[tuple[str, str], list[int]] = {}
    async with chat:
        for prompt in prompts:
            request = await chat.preview(prompt.request)
            sent = [message_to_dict(message) for message in request.all_messages] + [*request.options.tools]
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
