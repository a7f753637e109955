"""flexchat explain: shows which rule would answer a message, and the reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click
from flexchat.app import FlexChat
from flexchat.config.model import ResponseRule
from flexchat.config.wording import format_literal
from flexchat.domain import PhaseRecord
from flexchat.turn.run import Explanation

from .ask import message_options, read_message
from .context import FAILED, OK, CommandContext
from .parameters import command
from .prompts import variables_option
from .terminal import Terminal


@command
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

    async def run() -> Explanation:
        async with chat:
            return await chat.explain(text, topic=topic, collections=collections or None, variables=variables)

    explanation = asyncio.run(run())
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
        if costs := _costs(record):
            terminal.out(f"{'':21}{costs}", "dim")
        for warning in record.warnings:
            terminal.out(f"{'':21}warning: {warning}", "red")
    terminal.out()
    for verdict in explanation.verdicts:
        rule = chat.config.responses[verdict.rule]
        label = rule_label(verdict.rule, rule.name)
        indent = " " * len(label)
        if verdict.rule == explanation.rule:
            terminal.out(f"{terminal.symbol('→', '>')} {label}  {_answers(rule, chat)}", "bold")
            if explanation.tools:
                terminal.out(f"  {indent}  with the tools {', '.join(explanation.tools)}")
        elif verdict.fits:
            terminal.out(f"  {label}  fits too; an earlier one answers", "dim")
        for number, condition in enumerate(verdict.failed):
            terminal.out(f"  {indent if number else label}  {condition}", "dim")
    if explanation.rule is None:
        terminal.out("No rule fits: add one without 'match' at the end of responses.", "red")


def rule_label(index: int, name: str | None) -> str:
    """Name a rule for people, who count from 1 as the page does; data and paths have its index, from 0."""
    return f"rule {index + 1} '{name}'" if name else f"rule {index + 1}"


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
        case {"rag_results": _} as counts:
            return ", ".join(f"{key} {value}" for key, value in counts.items() if value not in (None, 0)) or "nothing"
        case {"rule": int(index), "llm": llm}:
            return f"{rule_label(index, record.outcome.get('name'))} ({llm})"
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
    parts, usage = [seconds], record.usage
    if usage is not None and (count := (usage.input_tokens or 0) + (usage.output_tokens or 0)):
        parts.append(f"{count} tokens")
    match record.input:
        case {"query": query}:
            parts.append(f"searched for: {query}")
        case {"llm": llm}:
            parts.append(f"asked {llm}")
    return ", ".join(parts)


def _answers(rule: ResponseRule, chat: FlexChat) -> str:
    model = chat.llms.resolve(rule.llm, rule.model)[1] if rule.llm in chat.llms else rule.model
    conditions = ", ".join(f"{key} = {format_literal(value)}" for key, value in rule.match.items()) or "no condition"
    return f"fits ({conditions}): {rule.llm}{f' ({model})' if model and model != rule.llm else ''} answers"


def _as_data(explanation: Explanation, chat: FlexChat) -> dict[str, Any]:
    rules = []
    for verdict in explanation.verdicts:
        rule = chat.config.responses[verdict.rule]
        result = {"rule": verdict.rule, "name": rule.name, "fits": verdict.fits, "failed": list(verdict.failed)}
        rules.append({**result, "match": dict(rule.match), "llm": rule.llm})
    phases = [record.to_dict() for record in explanation.phases]
    return {"rule": explanation.rule, "tools": list(explanation.tools), "rules": rules, "phases": phases}
