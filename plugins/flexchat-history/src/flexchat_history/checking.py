"""What a start and ``flexchat check`` report about [history] and its overrides in rules."""

from __future__ import annotations

from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

from .fitting import auto_limit, unknown_window
from .settings import load_policy, override
from .sizes import sizes_of_tools


def check_history(read: CheckedConfig) -> None:
    """Report what does not fit together: overrides, policies, and keys in the wrong table."""
    config = read.config
    kept = config.conversations.settings if config.conversations is not None else {}
    for name in ("keep_last", "keep_turns", "max_tokens", "compact"):
        if name in kept:
            read.problem(("conversations", name), f"{name} belongs to [history]")
    table = config.tables.get("history")
    if table is None:
        return
    places: list[tuple[tuple[str | int, ...], Any]] = [(("history",), table)]
    for index, rule in enumerate(config.responses):
        if rule.history is not None:
            settings, issues = override(table, rule.history)
            for issue in issues:
                read.problem(("responses", index, "history", *issue.path), issue.text)
            if settings is not None:
                places.append((("responses", index, "history"), settings))
    for place, settings in places:
        if settings.policy is not None:
            try:
                load_policy(settings.policy)
            except ValueError as error:
                read.problem((*place, "policy"), str(error))
        if settings.summary_llm is not None and settings.summary_llm not in config.llms:
            hint = did_you_mean(settings.summary_llm, config.llms) or f" (configured: {', '.join(config.llms)})"
            read.problem((*place, "summary_llm"), f"there is no entry '{settings.summary_llm}' in llms{hint}")
        if settings.keep_last is not None and place == ("history",):
            read.note((*place, "keep_last"), "it moves the beginning of every request, so that no service caches it")


def review_history(read: Any, parts: Any) -> None:
    """Report models of unknown size, and rules whose pinned part alone does not fit."""
    table = parts.config.tables.get("history")
    for index, rule in enumerate(parts.config.responses if table is not None else ()):
        settings, _ = override(table, rule.history)
        if settings is None or rule.llm not in parts.llms:
            continue
        llm, model = parts.llms.resolve(rule.llm, rule.model)
        price = llm.price_of(model) if settings.max_tokens == "auto" else None
        auto = auto_limit(None if price is None else price.window, rule.max_tokens)
        most = auto if settings.max_tokens == "auto" else settings.max_tokens
        if most is None:
            read.problem(("responses", index, "model"), unknown_window(llm.name, model))
            continue
        names = parts.tools.offered_to(rule) if rule.tools is None or rule.tools.enabled else ()
        tools = parts.tools.get_registry().to_provider_format(llm.provider.tool_format(model), names) if names else ()
        # A token of such texts has two bytes at least on average, so what exceeds this cannot fit.
        prompt, schemas = len(rule.prompt.encode()) // 8, sizes_of_tools(tools) // 8
        if prompt + schemas > most:
            sizes = f"prompt {prompt:,}, tools {schemas:,}"
            text = f"what is always sent has {prompt + schemas:,} tokens at least ({sizes}), max_tokens is {most:,}"
            read.problem(("responses", index), text)
