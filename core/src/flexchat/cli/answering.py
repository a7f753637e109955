"""Who answers, and how: -m MODEL, -s SYSTEM, -T TOOL, -o KEY=VALUE and --schema of ask and chat."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..app import FlexChat
from ..config.model import PromptEntry, ResponseRule, RuleTools
from ..domain import ChatRequest
from ..errors import ChatRequestError, ToolDefinitionError, did_you_mean
from ..request import Asked, read_request
from .context import CommandContext
from .parameters import SPOKEN
from .prompts import complete_prompt, named_prompt, with_message
from .schema_words import read_schema, schema_of_words
from .usage import UsageError

if TYPE_CHECKING:
    from ..config.reading import ReadConfig

PER_MESSAGE = (
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning",
    "tool_choice",
    "parallel_tool_calls",
    "max_iterations",
)
"""What -o may set, besides the settings of a provider: options of a rule that a message may override."""


@attrs.frozen(kw_only=True)
class Answering:
    """What the options say about who answers, and how.

    Attributes:
        model: "LLM/MODEL" of the configuration, or "PROVIDER/MODEL", which answers without its rules.
        system: System prompt, in place of the rule's.
        tools: Names of the tools offered, in place of the rule's.
        options: Of the rule, or the provider's settings, by name.
        schema: JSON Schema of the answer.
        prompt: Name of a prompt of the configuration, and the prompt.
    """

    model: str | None = None
    system: str | None = None
    tools: tuple[str, ...] = ()
    options: Mapping[str, Any] = attrs.field(factory=dict)
    schema: Mapping[str, Any] | None = None
    prompt: tuple[str, PromptEntry] | None = None

    @property
    def asked(self) -> Asked:
        """What they say of each message."""
        asked: Any = {name: value for name, value in self.options.items() if name in PER_MESSAGE}
        if self.schema is not None:
            asked["response_format"] = self.schema
        found: Asked = asked
        return found

    @property
    def needs_message(self) -> bool:
        """Whether there is nothing to send without words of the user's."""
        return self.prompt is None or not self.prompt[1].prompt

    def request(self, message: str, variables: Mapping[str, Any], context: CommandContext, **more: Any) -> ChatRequest:
        """Return the request that sends a message: as it is, or in the named prompt.

        Args:
            more: Further fields of the request.

        Raises:
            UsageError: The prompt needs a variable or a message.
        """
        if self.prompt is not None:
            name, prompt = self.prompt
            config = context.read_config()
            own = config.document.data.get("variables") if config is not None else None
            message = with_message(name, prompt, message, {**(own if isinstance(own, dict) else {}), **variables})
            variables = {**prompt.variables, **variables}
        return ChatRequest(user_message=message, variables=variables, **more)

    def open(self, context: CommandContext) -> FlexChat:
        """Return the configured chat, as the options change it, or one of the model they name.

        Raises:
            ConfigError: The configuration, or what they say, cannot be used.
            UsageError: They contradict others, or there is nothing that they could change.
        """
        if context.demo and self.model is not None:
            raise UsageError("--demo lets the rehearsal model answer, and -m another: use only one of them")
        self._check()
        config = context.read_config()
        settings = {name: value for name, value in self.options.items() if name not in PER_MESSAGE}
        if self.model is not None and not self._is_configured(config):
            host = context.installed_plugins(config)
            try:
                return FlexChat.from_model(
                    self.model, prompt=self.system or "", tools=self.tools, plugins=host, **settings
                )
            except ToolDefinitionError as error:
                raise UsageError(f"-T: {error}") from None
        if settings:
            name = next(iter(settings))
            where = "" if self.model else "; settings of a provider need -m PROVIDER/MODEL"
            raise UsageError(f"-o {name}: no such option{did_you_mean(name, PER_MESSAGE)}{where}")
        if config is None or (self.model is None and self.system is None and not self.tools):
            if self.system is not None or self.tools:
                raise UsageError("without a configuration, name a model: -m openai/gpt-5.2")
            return context.open_chat()
        host = context.installed_plugins(config)
        known = _registered(config)
        added = [name for name in self.tools if name not in known]
        unknown = [name for name in added if name not in host.tools.by_name and name not in host.tools.conflicts]
        if unknown:
            there = [*dict.fromkeys([*known, *host.tools.by_name])]
            hint = did_you_mean(unknown[0], there)
            raise UsageError(f"-T {unknown[0]}: no such tool{hint}; there are: {', '.join(there) or 'none'}")
        changed = config.with_rules(self._changed)
        offered = [host.tools.by_name.get(name, name) for name in added]
        return FlexChat.from_config(changed, plugins=host, tools=offered)

    def in_place_of(self, others: Answering) -> Answering:
        """Return these, and what the others say where these say nothing."""
        return Answering(
            model=self.model or others.model,
            system=self.system if self.system is not None else others.system,
            tools=self.tools or others.tools,
            options={**others.options, **self.options},
            schema=self.schema if self.schema is not None else others.schema,
            prompt=self.prompt or others.prompt,
        )

    def _check(self) -> None:
        """Check what they say of each message now, and not when the chat is open."""
        try:
            read_request("any", self.asked, message_chars=len("any"), stores=(), variables={})
        except ChatRequestError as error:
            raise UsageError(str(error)) from None

    def _is_configured(self, config: ReadConfig | None) -> bool:
        """Return whether the model's first part is a name in the configuration's llms."""
        llms = config.document.data.get("llms") if config is not None else None
        return isinstance(llms, dict) and str(self.model).partition("/")[0] in llms

    def _changed(self, rule: ResponseRule) -> ResponseRule:
        if self.model is not None:
            llm, _, model = self.model.partition("/")
            rule = attrs.evolve(rule, llm=llm, model=model or None, fallback=())
        if self.system is not None:
            rule = attrs.evolve(rule, prompt=self.system)
        if self.tools:
            rule = attrs.evolve(
                rule, tools=attrs.evolve(rule.tools or RuleTools(), enabled=True, allowed_tools=self.tools)
            )
        return rule


def answering_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who answers, and how; the command gets them as ``answering``."""

    @functools.wraps(command)
    def told(
        *args: Any,
        model: str | None,
        system: str | None,
        tools: tuple[str, ...],
        options: Mapping[str, Any],
        schema: Mapping[str, Any] | None,
        prompt: str | None,
        **values: Any,
    ) -> Any:
        answering = Answering(model=model, system=system, tools=tools, options=options, schema=schema)
        if prompt is not None:
            answering = answering.in_place_of(_named(prompt, click.get_current_context().obj))
        return command(*args, answering=answering, **values)

    added = (
        click.option(
            "-t",
            "--prompt",
            metavar="NAME",
            type=SPOKEN,
            shell_complete=complete_prompt,
            help="a named prompt of the configuration, [prompts.NAME]; other options come first",
        ),
        click.option("-m", "--model", metavar="NAME/MODEL", help="a provider's model, openai/gpt-5.2, or an llm's"),
        click.option("-s", "--system", metavar="TEXT", type=SPOKEN, help="system prompt, in place of the rule's"),
        click.option("-T", "--tool", "tools", metavar="NAME", multiple=True, help="a tool to offer; repeatable"),
        click.option(
            "-o",
            "--option",
            "options",
            metavar="KEY=VALUE",
            type=SPOKEN,
            multiple=True,
            callback=lambda ctx, param, words: read_options(words),
            help="temperature=0 and other options of a rule; with -m also the provider's settings; repeatable",
        ),
        click.option(
            "--schema",
            metavar="WORDS|FILE",
            type=SPOKEN,
            callback=lambda ctx, param, text: None if text is None else read_schema(text),
            help="the form of the answer: 'name, age int', or a file with a JSON Schema",
        ),
    )
    return functools.reduce(lambda done, option: option(done), reversed(added), told)


def of_prompt(name: str, prompt: PromptEntry) -> Answering:
    """Return what a prompt of the configuration says.

    Raises:
        UsageError: It cannot be used.
    """
    schema = prompt.schema
    answering = Answering(
        model=prompt.model,
        system=prompt.system,
        tools=prompt.tools,
        options=prompt.options,
        schema=schema_of_words(schema) if isinstance(schema, str) else schema,
        prompt=(name, prompt),
    )
    answering._check()
    return answering


def _named(name: str, context: CommandContext) -> Answering:
    prompt = named_prompt(context, name)
    try:
        return of_prompt(name, prompt)
    except UsageError as error:
        raise UsageError(f"{context.config_file()}: prompts.{name}: {error}") from None


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """Return options by name: JSON if the value is that, otherwise the text.

    Raises:
        UsageError: One has no name, or is given twice.
    """
    options: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError(f"-o {word}: KEY=VALUE is expected, as in -o temperature=0")
        if name in options:
            raise UsageError(f"-o {name} is given twice")
        try:
            options[name] = json.loads(text)
        except (ValueError, RecursionError):
            options[name] = text
    return options


def _registered(config: ReadConfig) -> list[str]:
    tools = config.config.tools.registry if config.config is not None else ()
    return [entry.name for entry in tools]
