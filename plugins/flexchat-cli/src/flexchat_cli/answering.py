"""The options of ask, chat and batch for model, prompt and tools: -m, -s, -T, -o, --functions, --schema and -t."""

from __future__ import annotations

import importlib
import inspect
import json
import linecache
import os
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
from flexchat.app import FlexChat
from flexchat.calls.manager import ToolLike, as_definition
from flexchat.config.model import PromptEntry, ResponseRule, RuleTools
from flexchat.domain import ChatRequest, ToolDefinition
from flexchat.errors import ChatRequestError, ConfigError, ToolDefinitionError, did_you_mean
from flexchat.plugin.foreign import contained, error_name
from flexchat.request import RequestOptions, read_request
from flexchat.tools.python_function import FunctionTool
from flexchat.tools.python_function import tool as as_tool

from .context import CommandContext, UsageError
from .models import full_name, llm_names, saved_names
from .parameters import TEXT, option_group
from .prompts import MESSAGE, complete_prompt, named_prompt, with_message
from .standard_input import read_text_file

_MAX_BYTES = 1 << 20
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def read_schema(text: str, folder: str | os.PathLike[str] = "", what: str = "--schema") -> dict[str, Any]:
    """Return the JSON Schema of an object.

    In words, fields are separated by commas or, if the text has several lines, by line ends. A field is its name, then
    its type if it is not a text (int, float, bool, str), then a colon and what it means: "name, age int: in years".
    Every field is required.

    Args:
        text: A JSON object, the name of a file with one, or words.
        folder: Where a relative file is looked for; empty: here.
        what: What errors call it.

    Raises:
        UsageError: It is none of them.
    """
    if not text.strip():
        raise UsageError(f"{what} is empty: name fields, as in 'name, age int', or a file")
    if text.lstrip().startswith("{"):
        return _object(text, what)
    file = os.path.join(folder, text)
    if text.endswith(".json") or os.path.exists(file):
        return _object(read_text_file(file, f"{what} {text}", most=_MAX_BYTES), f"{what} {text}")
    try:
        return _of_words(text)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def _of_words(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in re.split(r"\n" if "\n" in text.strip() else ",", text.strip()):
        if field.strip():
            name, schema = _field(field)
            if name in fields:
                raise UsageError(f"the field '{name}' is given twice")
            fields[name] = schema
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def schema_of_many(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with any number of these in ``items``: services want an object."""
    of_root = {key: value for key, value in schema.items() if key in ("$schema", "$defs")}  # where references point to
    one = {key: value for key, value in schema.items() if key not in of_root}
    many = {"type": "object", "properties": {"items": {"type": "array", "items": one}}, "required": ["items"]}
    return {**of_root, **many, "additionalProperties": False}


def _field(text: str) -> tuple[str, dict[str, str]]:
    words, _, meaning = text.partition(":")
    name, *kinds = words.split() or [""]
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name or text.strip()}' cannot name a field: letters, digits, _ and -")
    if len(kinds) > 1 or (kinds and kinds[0] not in _TYPES):
        known = ", ".join(_TYPES)
        raise UsageError(
            f"'{' '.join(kinds)}' is not a type for '{name}'{did_you_mean(kinds[0], _TYPES)}; known: {known}"
        )
    schema = {"type": _TYPES[kinds[0] if kinds else "str"]}
    return name, schema | ({"description": meaning.strip()} if meaning.strip() else {})


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{what} is not a JSON Schema: it must be an object")
    return schema


def tools_in(sources: Sequence[str]) -> list[ToolDefinition]:
    """Return the tools of Python texts, or of files that end with .py: one for each function without a leading _.

    Raises:
        UsageError: A file is missing, the text cannot be run, or a function cannot be described.
    """
    return [each for number, source in enumerate(sources) for each in _tools(source, number)]


def _tools(source: str, number: int) -> Iterator[ToolDefinition]:
    is_file = "\n" not in source and source.strip().endswith(".py")
    where, name = (f"--functions {source}" if is_file else "--functions"), f"flexchat_functions_{number}"
    code = read_text_file(source.strip(), where, most=_MAX_BYTES) if is_file else source
    module, file = types.ModuleType(name), source if is_file else f"<--functions {number}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # for tracebacks and inspect
    try:
        with contained():
            exec(compile(code, file, "exec"), module.__dict__)
    except SyntaxError as error:
        raise UsageError(f"{where}: this is not Python: {error.msg} (line {error.lineno})") from None
    except Exception as error:
        raise UsageError(f"{where}: it cannot be run: {error_name(error)}") from error
    has_tool = False
    for each, value in vars(module).items():
        is_own = inspect.isfunction(value) and value.__module__ == name and not each.startswith("_")
        if not is_own and not isinstance(value, FunctionTool):
            continue
        has_tool = True
        try:
            # The name of a one-liner is description enough; a longer function should have a docstring.
            function_tool = (
                value
                if isinstance(value, FunctionTool)
                else as_tool(name=each, description=None if inspect.getdoc(value) else each.replace("_", " "))(value)
            )
        except ToolDefinitionError as error:
            raise UsageError(f"{where}: {error}") from None
        yield function_tool.definition
    if not has_tool:
        raise UsageError(f"{where}: it defines no function")


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
"""Options of a rule that a message may override with -o, besides the settings of a provider."""


MODEL = "FLEXCHAT_MODEL"
"""The variable that names the model if there is neither -m nor a configuration."""


@attrs.frozen(kw_only=True)
class Answering:
    """The options that select the model, the prompt and the tools of an answer.

    Attributes:
        model: "LLM/MODEL" of the configuration, or "PROVIDER/MODEL", which answers without the rules.
        system: System prompt, in place of the rule's.
        tools: Names of the tools offered, in place of the rule's, and functions used as tools: "module:function".
        functions: Tools from Python code (--functions), offered with those.
        options: Options of the rule, or settings of the provider, by name.
        schema: JSON Schema of the answer.
        prompt: Name of a prompt of the configuration, and the prompt.
        named_model: The model, if it was typed.
    """

    model: str | None = None
    system: str | None = None
    tools: tuple[str, ...] = ()
    functions: tuple[ToolDefinition, ...] = ()
    options: Mapping[str, Any] = attrs.field(factory=dict)
    schema: Mapping[str, Any] | None = None
    prompt: tuple[str, PromptEntry] | None = None
    named_model: str | None = None

    @property
    def message_options(self) -> RequestOptions:
        """The options that apply to a single message."""
        options: Any = {name: value for name, value in self.options.items() if name in PER_MESSAGE}
        typed: RequestOptions = options if self.schema is None else options | {"response_format": self.schema}
        return typed

    @property
    def needs_message(self) -> bool:
        """Whether the user must supply a message, because no prompt has a text of its own."""
        return self.prompt is None or not self.prompt[1].prompt

    def request(self, message: str, variables: Mapping[str, Any], context: CommandContext, **more: Any) -> ChatRequest:
        """Build the request for a message, filled into the named prompt if there is one.

        Args:
            more: Further fields of the request.

        Raises:
            UsageError: The prompt needs a variable or a message.
        """
        text, values = self.render(message, variables, context)
        return ChatRequest(user_message=text, variables=values, **more)

    def render(
        self, message: str, variables: Mapping[str, Any], context: CommandContext
    ) -> tuple[str, Mapping[str, Any]]:
        """Fill a message into the named prompt; return the text to send and the request's variables.

        Raises:
            UsageError: The named prompt needs a variable or a message.
        """
        if self.prompt is None:
            return message, variables
        name, prompt = self.prompt
        own = context.config_data().get("variables")
        values = {**(own if isinstance(own, dict) else {}), **variables}
        text = with_message(name, prompt, message, values, self.system or "")
        return text, {**prompt.variables, **variables, MESSAGE: message}

    def open(self, context: CommandContext) -> FlexChat:
        """Open the configured chat with the options applied, or a chat with the model they name.

        Raises:
            ConfigError: The configuration or an option cannot be used.
            UsageError: Options contradict each other, or there is no configuration for them to change.
        """
        if context.demo and self.model is not None:
            raise UsageError("--demo lets the rehearsal model answer, and -m another: use only one of them")
        self._check()
        config = context.read_config()
        settings = {name: value for name, value in self.options.items() if name not in PER_MESSAGE}
        llms = llm_names(context.config_data())
        if self.model is not None and self.model.partition("/")[0] not in llms:
            host = context.installed_plugins(config)
            model = full_name(self.model, llms, host)
            if model.partition("/")[0] in llms:  # an alias
                return attrs.evolve(self, model=model).open(context)
            try:
                tools = [*map(_import_function, self.tools), *self.functions]
                return FlexChat.from_model(model, prompt=self.system or "", tools=tools, plugins=host, **settings)
            except ToolDefinitionError as error:
                raise UsageError(f"-T: {error}") from None
            except ConfigError as error:
                for name in settings:
                    if f"unknown key '{name}'" in str(error) and (meant := did_you_mean(name, PER_MESSAGE)):
                        raise UsageError(f"-o {name}: no such option{meant}") from None
                raise
        if settings:
            name = next(iter(settings))
            where = "" if self.model else "; settings of a provider need -m PROVIDER/MODEL"
            raise UsageError(f"-o {name}: no such option{did_you_mean(name, PER_MESSAGE)}{where}")
        source, host = context.config_source()
        if self.model is None and self.system is None and not self.tools and not self.functions:
            return FlexChat.from_config(source, plugins=host)
        from flexchat.config.reading import read_config  # imports cattrs: not every command needs it

        config = read_config(source)
        registered = [entry.name for entry in config.config.tools.registry] if config.config is not None else []
        others = [name for name in self.tools if name not in registered]
        added = {name: host.tools.by_name.get(name) or _import_function(name) for name in others}
        unknown = [name for name, tool in added.items() if tool == name and name not in host.tools.conflicts]
        if unknown:
            there = [*dict.fromkeys([*registered, *host.tools.by_name])]
            hint = did_you_mean(unknown[0], there)
            raise UsageError(f"-T {unknown[0]}: no such tool{hint}; there are: {', '.join(there) or 'none'}")
        try:
            offered = {name: tool if isinstance(tool, str) else as_definition(tool) for name, tool in added.items()}
        except ToolDefinitionError as error:
            raise UsageError(f"-T: {error}") from None
        names = tuple(tool if isinstance(tool := offered.get(name, name), str) else tool.name for name in self.tools)
        duplicates = {*registered, *names} & {tool.name for tool in self.functions}
        if duplicates:
            raise UsageError(f"--functions: there is another tool called '{min(duplicates)}'")
        names = (*names, *(tool.name for tool in self.functions))
        changed = config.with_rules(attrs.evolve(self, tools=names)._changed)
        return FlexChat.from_config(changed, plugins=host, tools=[*offered.values(), *self.functions])

    def with_defaults(self, others: Answering) -> Answering:
        """Fill options that are not set from *others*."""
        fields = attrs.asdict(self, recurse=False)
        own = {name: value for name, value in fields.items() if value or (name == "system" and value is not None)}
        return attrs.evolve(others, **own | {"options": {**others.options, **self.options}})

    def _check(self) -> None:
        """Check the options of a message before the chat is opened, which may start servers."""
        try:
            read_request("any", self.message_options, message_chars=len("any"), stores=(), variables={})
        except ChatRequestError as error:
            raise UsageError(str(error)) from None

    def _changed(self, rule: ResponseRule) -> ResponseRule:
        if self.model is not None:
            llm, _, model = self.model.partition("/")
            rule = attrs.evolve(rule, llm=llm, model=model or None, fallback=())
        if self.system is not None:
            rule = attrs.evolve(rule, prompt=self.system)
        if self.tools:
            tools = attrs.evolve(rule.tools or RuleTools(), enabled=True, allowed_tools=self.tools)
            rule = attrs.evolve(rule, tools=tools)
        return rule


def _has_llms(context: CommandContext) -> bool:
    """Return whether a configuration has models; one that consists of prompts does not."""
    data = context.config_data()
    return context.config_file() is not None and ("prompts" not in data or "llms" in data)


def of_prompt(name: str, prompt: PromptEntry, folder: str | os.PathLike[str]) -> Answering:
    """Read the options in a prompt of the configuration.

    Args:
        folder: The configuration's folder, to which the path of a schema is relative.

    Raises:
        UsageError: The prompt cannot be used.
    """
    schema = prompt.schema
    answering = Answering(
        model=prompt.model,
        system=prompt.system,
        tools=prompt.tools,
        options=prompt.options,
        schema=read_schema(schema, folder, "schema") if isinstance(schema, str) else schema,
        prompt=(name, prompt),
    )
    answering._check()
    return answering


def _read_prompt(name: str, context: CommandContext) -> Answering:
    prompt, file = named_prompt(context, name), context.config_file() or Path()
    try:
        return of_prompt(name, prompt, file.parent)
    except UsageError as error:
        raise UsageError(f"{file}: prompts.{name}: {error}") from None


def _import_function(name: str) -> ToolLike:
    """Import the function of "module:function"; any other name is returned unchanged.

    Raises:
        UsageError: It cannot be imported, or is not a function.
    """
    if name.endswith(".py"):
        hint = f"-T {Path(name).stem}:FUNCTION names one function of it"
        raise UsageError(f"-T {name}: --functions {name} offers the functions of a file; {hint}")
    module, separator, function = name.partition(":")
    if not separator or not all(part.isidentifier() for part in (*module.split("."), function)):
        return name
    try:
        with contained():
            there = importlib.import_module(module)
            value = getattr(there, function, None)
    except Exception as error:  # importing a module runs it: it may raise anything
        raise UsageError(f"-T {name}: it cannot be imported: {error_name(error)}") from error
    if value is None:
        raise UsageError(f"-T {name}: {module} has no '{function}'{did_you_mean(function, dir(there))}")
    if not callable(value) and not isinstance(value, ToolDefinition):
        raise UsageError(f"-T {name}: it is not a function")
    tool: ToolLike = value
    return tool


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


def _read_options(
    model: str | None,
    system: str | None,
    tools: tuple[str, ...],
    functions: tuple[str, ...],
    options: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    schema_of_items: Mapping[str, Any] | None,
    prompt: str | None,
) -> Answering:
    """Combine the options of the command line with those of the named prompt and the default model."""
    context = click.get_current_context().obj
    if schema_of_items is not None:
        if schema is not None:
            raise UsageError("--schema and --schema-multi both name the form of the answer: use only one of them")
        schema = schema_of_many(schema_of_items)
    answering = Answering(
        model=model,
        system=system,
        tools=tools,
        functions=tuple(tools_in(functions)),
        options=options,
        schema=schema,
        named_model=model,
    )
    if prompt is not None:
        answering = answering.with_defaults(_read_prompt(prompt, context))
    if answering.model is None and not context.demo and not _has_llms(context):
        answering = attrs.evolve(answering, model=os.environ.get(MODEL) or saved_names().default)
    return answering


answering_options = option_group(
    "answering",
    _read_options,
    click.option(
        "-t",
        "--prompt",
        metavar="NAME",
        type=TEXT,
        shell_complete=complete_prompt,
        help="a named prompt of the configuration, [prompts.NAME]; other options come first",
    ),
    click.option(
        "-m",
        "--model",
        metavar="NAME/MODEL",
        help=f"a provider's model, openai/gpt-5.2 or gpt-5.2; an llm's; or an alias (default without a "
        f"configuration: {MODEL}, or flexchat models default)",
    ),
    click.option("-s", "--system", metavar="TEXT", type=TEXT, help="system prompt, in place of the rule's"),
    click.option(
        "-T",
        "--tool",
        "tools",
        metavar="NAME",
        multiple=True,
        help="a tool to offer, or a Python function, module:function; repeatable",
    ),
    click.option(
        "--functions",
        metavar="CODE|FILE",
        type=TEXT,
        multiple=True,
        help="Python code, or a file of it, whose functions are offered as tools; repeatable",
    ),
    click.option(
        "-o",
        "--option",
        "options",
        metavar="KEY=VALUE",
        type=TEXT,
        multiple=True,
        callback=lambda ctx, param, words: read_options(words),
        help="temperature=0, or -o temperature 0, and other options of a rule; with -m the provider's settings; "
        "repeatable",
    ),
    click.option(
        "--schema",
        metavar="WORDS|FILE",
        type=TEXT,
        callback=lambda ctx, param, text: None if text is None else read_schema(text),
        help="the form of the answer: 'name, age int', or a file with a JSON Schema",
    ),
    click.option(
        "--schema-multi",
        "schema_of_items",
        metavar="WORDS|FILE",
        type=TEXT,
        callback=lambda ctx, param, text: None if text is None else read_schema(text),
        help="the form of each item in a list: the answer is {items: […]}",
    ),
)
"""The options that select model, prompt and tools; a command receives them as ``answering``."""
