"""Collects operations, pages and facts about models: ours, and those of plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from . import plugin_api
from .api import (
    chat,
    conversations,
    embeddings,
    journal,
    media,
    models,
    openai,
    questions,
    responses,
    server,
    tool_sources,
    tools,
    turns,
)
from .api.errors import convert_errors
from .api.models import ModelLists, with_facts
from .config import configuration, connections
from .operations import ModelFact, MountedApp, Operation, Page
from .serving import Serving

log = logging.getLogger(__name__)

PAGES = ("chat", "activity", "tools", "config", "explain")
"""Ours, as static/js/main.js names them."""

_CHATS = (
    *(chat.operation, media.operation, conversations.operation, journal.turns, turns.operation, questions.operation),
    *(journal.effects, tools.operation, tool_sources.operation),
)
_SERVER_AND_CONFIG = (
    *(openai.operation, responses.operation, embeddings.operation),
    *(server.operation, configuration.operation, connections.operation),
)

T = TypeVar("T")


def collect_operations(serving: Serving) -> Iterator[Operation]:
    """Yield the operations in the order of the documents, and set the facts that the list of models includes."""
    facts = tuple(fact for _, fact in _offers(serving, "flexchat_web_model_facts", ModelFact))
    serving.shared(ModelLists).facts = facts
    first = [operation for ours in _CHATS for operation in ours.declared]
    first += [with_facts(operation, facts) for operation in models.operation.declared]
    last = [operation for ours in _SERVER_AND_CONFIG for operation in ours.declared]
    owners = {(operation.method, operation.path): "FlexChat's own" for operation in (*first, *last)}
    yield from map(convert_errors, first)
    hook = "flexchat_web_operations"
    for plugin, operation in _offers(serving, hook, Operation):
        place = (operation.method, operation.path)
        if place in owners:
            _leave_out(plugin, hook, f"{' '.join(place)} is {owners[place]}")
            continue
        owners[place] = f"an operation of {plugin}"
        yield convert_errors(operation)
    yield from map(convert_errors, last)


def collect_apps(serving: Serving, operations: Iterable[Operation]) -> Iterator[MountedApp]:
    """Yield the apps of plugins that take the place of nothing else."""
    hook, mounted = "flexchat_web_apps", list[MountedApp]()
    paths = [*(operation.path for operation in operations), "/static/", "/"]
    for plugin, app in _offers(serving, hook, MountedApp):
        if any(app.answers(other.path) or other.answers(app.path) for other in mounted):
            _leave_out(plugin, hook, f"another plugin has mounted an app at {app.path}")
        elif clash := [path for path in paths if app.answers(path)]:
            _leave_out(plugin, hook, f"{clash[0]} is FlexChat's own")
        else:
            mounted.append(app)
            yield app


def collect_pages(serving: Serving) -> Iterator[Page]:
    """Yield the pages of plugins that can be shown."""
    hook, owners = "flexchat_web_pages", dict.fromkeys(PAGES, "FlexChat's own")
    for plugin, page in _offers(serving, hook, Page):
        if page.name in owners:
            _leave_out(plugin, hook, f"the page '{page.name}' is {owners[page.name]}")
        elif missing := [name for name in (page.script, *page.styles) if not Path(page.folder, name).is_file()]:
            _leave_out(plugin, hook, f"the page '{page.name}' has no {Path(page.folder, missing[0])}")
        else:
            owners[page.name] = f"a page of {plugin}"
            yield page


def _offers(serving: Serving, hook: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield plugins' answers to one of our hooks, each with the plugin's name."""
    for plugin, answers in serving.plugins.ask(hook, web=plugin_api):
        for answer in answers if isinstance(answers, list | tuple) else [answers]:
            if isinstance(answer, kind):
                yield plugin, answer
            elif answer is not None:
                _leave_out(plugin, hook, f"it takes web.{kind.__name__}, not {type(answer).__name__}")


def _leave_out(plugin: str, hook: str, reason: str) -> None:
    # A plugin's mistake must not stop the server: what is right in it is used.
    log.warning("plugin %s: something of %s is left out: %s", plugin, hook, reason)
