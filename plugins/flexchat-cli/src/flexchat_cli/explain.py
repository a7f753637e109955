"""flexchat explain: which rule would answer a message, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import click
from flexchat.app import FlexChat
from flexchat.config.model import ResponseRule
from flexchat.config.wording import spoken_literal
from flexchat.domain import PhaseRecord
from flexchat.turn.run import Explanation

from .ask import message_options, read_message
from .context import CommandContext
from .prompt_variables import variables_option
from .terminal import Terminal
from .usage import FAILED, OK


@click.command
@message_options
@variables_option
@click.option("--topic", help="what the conversation has been about so far")
@click.option(
    "--collection",
    "collections",
    metavar="STORE[/NAME]",
    multiple=True,
    help="search for documents only there; repeatable",
)
@click.pass_obj
def explain(
    context: CommandContext,
    message: tuple[str, ...],
    no_stdin: bool,
    variables: Mapping[str, Any],
    topic: str | None,
    collections: tuple[str, ...],
) -> int:
    """Show which rule would answer a message, and why.

    Phases 1 to 5 run; no answer is asked for. The exit status is 1 if no rule fits.
    """
    text = read_message(message, context.terminal, use_stdin=not no_stdin)
    chat = context.open_chat()

    async def explained() -> Explanation:
        async with chat:
            return await chat.explain(text, topic=topic, collections=collections or None, variables=variables)

    explanation = asyncio.run(explained())
    if context.json:
        context.terminal.json({"message": text, **_as_data(explanation, chat)})
    else:
        _show(text, explanation, chat, context.terminal)
    return OK if explanation.rule is not None else FAILED


def _show(message: str, explanation: Explanation, chat: FlexChat, terminal: Terminal) -> None:
    terminal.out(f"Message: {message}", "bold")
    terminal.out()
    for number, record in enumerate(explanation.phases, 1):
        terminal.out(f"{number} {record.phase:18} {_outcome(record)}")
        costs = _costs(record)
        if costs:
            terminal.out(f"{'':21}{costs}", "dim")
        for warning in record.warnings:
            terminal.out(f"{'':21}warning: {warning}", "red")
    terminal.out()
    for verdict in explanation.verdicts:
        rule = chat.config.responses[verdict.rule]
        chosen = verdict.rule == explanation.rule
        mark = terminal.symbol("→", ">") if chosen else " "
        if chosen:
            terminal.out(f"{mark} {_rule(verdict.rule, chat)}  {_answers(rule, chat)}", "bold")
            if explanation.tools:
                terminal.out(f"  {' ' * len(_rule(verdict.rule, chat))}  with the tools {', '.join(explanation.tools)}")
        elif verdict.fits:
            terminal.out(f"{mark} {_rule(verdict.rule, chat)}  fits too; an earlier one answers", "dim")
        for index, failed in enumerate(verdict.failed):
            head = f"{_rule(verdict.rule, chat)}  "
            head = head if index == 0 else " " * len(head)
            terminal.out(f"  {head}{failed}", "dim")
    if explanation.rule is None:
        terminal.out("No rule fits: add one without 'match' at the end of responses.", "red")


def _outcome(record: PhaseRecord) -> str:
    if record.skipped:
        skipped = f"not run: {record.skipped}"
        return f"{record.outcome} ({skipped})" if isinstance(record.outcome, str) else skipped
    match record.outcome:
        case {"topic": topic, "status": status}:
            return f'"{topic}" ({str(status).replace("_", " ")})'
        case {"result": result, "data": data}:
            hits = [data] if isinstance(data, Mapping) else data or []
            return "; ".join([str(result), *map(_hit, hits)])
        case {"rag_results": _, **rest}:
            known = {"rag_results": record.outcome["rag_results"], **rest}
            return ", ".join(f"{key} {value}" for key, value in known.items() if value not in (None, 0)) or "nothing"
        case {"rule": index, "name": name, "llm": llm}:
            return f"rule {index} '{name}' ({llm})"
        case {"rule": index, "llm": llm}:
            return f"rule {index} ({llm})"
        case None:
            return "none"
    return str(record.outcome)


def _hit(hit: Mapping[str, Any]) -> str:
    place = f"{hit['service']}/{hit['collection']}" if hit["collection"] else hit["service"]
    return f"{place} at distance {hit['distance']:.3f} ({', '.join(hit['documents'])})"


def _costs(record: PhaseRecord) -> str:
    if record.skipped or (record.elapsed_ms < 1 and record.usage is None):
        return ""
    seconds = f"{record.elapsed_ms:.0f} ms" if record.elapsed_ms < 1000 else f"{record.elapsed_ms / 1000:.1f} s"
    usage = record.usage
    count = (usage.input_tokens or 0) + (usage.output_tokens or 0) if usage is not None else 0
    tokens = [f"{count} tokens"] if count else []
    asked = record.input if isinstance(record.input, Mapping) else {}
    details = [f"asked {asked['llm']}"] if "llm" in asked else []
    if "query" in asked:
        details = [f"searched for: {asked['query']}"]
    return ", ".join([seconds, *tokens, *details])


def _rule(index: int, chat: FlexChat) -> str:
    """Return a rule's name for people: its number is its place in responses, from 0, as in every path."""
    name = chat.config.responses[index].name
    return f"rule {index} '{name}'" if name else f"rule {index}"


def _answers(rule: ResponseRule, chat: FlexChat) -> str:
    model = chat.llms.resolve(rule.llm, rule.model)[1] if rule.llm in chat.llms else rule.model
    conditions = ", ".join(f"{key} = {spoken_literal(value)}" for key, value in rule.match.items()) or "no condition"
    return f"fits ({conditions}): {rule.llm}{f' ({model})' if model and model != rule.llm else ''} answers"


def _as_data(explanation: Explanation, chat: FlexChat) -> dict[str, Any]:
    rules: Iterable[dict[str, Any]] = (
        {
            "rule": verdict.rule,
            "name": chat.config.responses[verdict.rule].name,
            "fits": verdict.fits,
            "failed": list(verdict.failed),
            "match": dict(chat.config.responses[verdict.rule].match),
            "llm": chat.config.responses[verdict.rule].llm,
        }
        for verdict in explanation.verdicts
    )
    phases = [record.to_dict() for record in explanation.phases]
    return {
        "rule": explanation.rule,
        "tools": list(explanation.tools),
        "rules": list(rules),
        "phases": phases,
    }
