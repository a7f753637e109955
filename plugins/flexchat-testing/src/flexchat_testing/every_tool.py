"""A model that calls every tool it is offered once, with arguments that fit, and answers in the requested format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.plugin import ChatResult
from flexchat_sdk import AssistantMessage, ChatOptions, Message, ModelInfo, ProviderRequestError

from .example_value import NoExampleError, example_value
from .scripted import ScriptedProvider, calls, says

MAX_CALLS = 32
"""Calls in one answer: the default of limits.tool_calls_per_answer."""


class EveryToolProvider(ScriptedProvider):
    """A model that calls every tool once in each turn, and then answers.

    It shows that all tools of an application can be called, without a script. The answer is a value that fits the
    requested format, or otherwise a sentence that names the tools.
    """

    follows_instructions = False

    def __init__(
        self,
        *,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        answer: str | None = None,
        name: str = "scripted",
    ) -> None:
        """Make the model.

        Args:
            arguments: Arguments by tool, in place of those made from its schema.
            answer: The answer, in place of one that is made.
        """
        super().__init__([self._next], name=name, repeat=True)
        self._arguments, self._answer = dict(arguments or {}), answer

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one model there is."""
        return (ModelInfo(id="every-tool", capabilities=frozenset({"tools"})),)

    def _next(self, messages: Sequence[Message], options: ChatOptions) -> ChatResult:
        """Call the tools that this turn has not called yet; if there are none, answer.

        Raises:
            ProviderRequestError: No value fits the schema of a tool or of the answer.
        """
        done = _called(messages)
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in options.tools}
        waiting = [] if options.tool_choice == "none" else [name for name in offered if name not in done]
        if waiting:
            return calls(*[(name, self._arguments_for(name, offered[name])) for name in waiting[:MAX_CALLS]])
        form = options.response_format
        if self._answer is not None:
            return says(self._answer)
        if form is not None:
            return says(json.dumps({} if form.schema is None else self._example("response_format", form.schema)))
        return says(f"Called: {', '.join(done)}." if done else "There was no tool to call.")

    def _arguments_for(self, tool: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        fixed = self._arguments.get(tool)
        if fixed is not None:
            return fixed
        arguments: Mapping[str, Any] = self._example(tool, schema)
        return arguments

    def _example(self, what: str, schema: Mapping[str, Any]) -> Any:
        try:
            return example_value(schema)
        except NoExampleError as error:
            text = f"{what}: {error}. Give it a value: EveryToolProvider(arguments={{'{what}': {{…}}}})"
            if what == "response_format":
                text = f"{what}: {error}. Give it a value: EveryToolProvider(answer='…')"
            raise ProviderRequestError(text, provider=self.name, model=self.requests[-1].model) from None


def _called(messages: Sequence[Message]) -> list[str]:
    """Return the names of the tools called since the user's last message."""
    names: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        if isinstance(message, AssistantMessage):
            names = [call.name for call in message.tool_calls] + names
    return names
