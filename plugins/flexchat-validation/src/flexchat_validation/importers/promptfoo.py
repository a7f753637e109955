"""Imports promptfoo's tests of tool calls as cases. A note on each test names what has no counterpart here.

Reads prompts, tests (vars, assert, description), defaultTest, and providers' tools in OpenAI's format. Nothing in a
file or named by it is run: no JavaScript, no Python, no template except {{name}}.

Source: promptfoo's configuration reference.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from flexchat import ConfigError, Problem

from ..case_files import failed, read_text
from ..cases import AnswerCheck, Case, CaseTool
from ..checking import Offered, find_issues
from ..reading import Imported
from .promptfoo_assertions import Wanted, complete, listed, read_assertion, table

MISSING = "promptfoo's YAML needs a reader: pip install 'flexchat-validation[yaml]'"

_MOST = 10_000
_TOO_MANY = 1_000_000
_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}")


class _LeftOutError(Exception):
    """A test cannot be imported; the text gives the reason."""


def read_promptfoo(file: Path, *, limit: int | None = None) -> Imported:
    """Return a file's tests as cases: one for each prompt, test and combination of variables.

    Args:
        limit: Maximum number of cases.

    Raises:
        ConfigError: The file cannot be read, or has no tests.
    """
    data = _loaded(file)
    if not isinstance(data, Mapping) or not isinstance(data.get("tests"), list):
        raise failed(file, "promptfoo's tests are expected in a list 'tests' of this file")
    notes: list[str] = []
    prompts = [*_prompts(data.get("prompts"), file, notes)] or [(None, "{{message}}")]
    tools = _tools(data.get("providers", data.get("targets")), file, notes)
    default = data.get("defaultTest")
    default = default if isinstance(default, Mapping) else {}
    cases: list[Case] = []
    names: set[str] = set()
    for number, test in enumerate(data["tests"], 1):
        title = f"test {number}"
        if not isinstance(test, Mapping):
            notes.append(f"{title}: left out: it is not a table")
            continue
        title = str(test.get("description") or title)
        for name, variables, (prompt, message) in itertools.islice(_variants(title, test, default, prompts), _MOST):
            if limit is not None and len(cases) >= limit:
                return Imported(cases=tuple(cases), notes=tuple(dict.fromkeys(notes)))
            try:
                case, more = _case(_unused(name, names), test, default, variables, prompt, message, tools, file)
            except _LeftOutError as reason:
                notes.append(f"{title}: left out: {reason}")
                continue
            names.add(case.name)
            cases.append(case)
            notes += [f"{title}: {note}" for note in more]
    return Imported(cases=tuple(cases), notes=tuple(dict.fromkeys(notes)))


def _variants(
    title: str, test: Mapping[str, Any], default: Mapping[str, Any], prompts: Sequence[tuple[str | None, str]]
) -> Iterator[tuple[str, dict[str, Any], tuple[str | None, str]]]:
    """Yield each prompt with each combination of variables; a list in vars means one value after the other."""
    variables = {**table(default.get("vars")), **table(test.get("vars"))}
    options = [value if isinstance(value, list) and value else [value] for value in variables.values()]
    for index, prompt in enumerate(prompts, 1):
        for number, values in enumerate(itertools.product(*options), 1):
            name = title + (f", prompt {index}" if len(prompts) > 1 else "")
            yield name + (f" ({number})" if number > 1 else ""), dict(zip(variables, values, strict=True)), prompt


def _case(
    name: str,
    test: Mapping[str, Any],
    default: Mapping[str, Any],
    variables: Mapping[str, Any],
    prompt: str | None,
    message: str,
    tools: Mapping[str, CaseTool],
    file: Path,
) -> tuple[Case, list[str]]:
    notes: list[str] = []
    options = table(test.get("options"))
    provider = test.get("provider", options.get("provider"))
    tools = {**tools, **_tools([options, provider], file, notes)}
    test_case = Wanted(tools, notes=notes)
    for assertion in [*listed(default.get("assert")), *listed(test.get("assert"))]:
        read_assertion(_rendered_data(assertion, variables), test_case)
    complete(test_case)
    if not test_case.calls:
        why = "; ".join(notes) or "it has no assertion about them"
        raise _LeftOutError(f"it does not name the tools to call ({why})")
    answer = test_case.contains or test_case.regex
    metadata = table(test.get("metadata"))
    tags = ("promptfoo", *(str(metadata[key]) for key in ("category",) if isinstance(metadata.get(key), str)))
    case = Case(
        name=name,
        message=_rendered(message, variables),
        prompt=None if prompt is None else _rendered(prompt, variables),
        calls=tuple(test_case.calls),
        order="given" if test_case.order else "any",
        extra_calls=test_case.extra_calls,
        answer=AnswerCheck(contains=tuple(test_case.contains), regex=test_case.regex) if answer else None,
        tools=() if tools else None,
        own_tools=tuple(tools.values()),
        tags=tags,
    )
    offered = Offered() if tools else Offered(parameters=dict.fromkeys(call.tool for call in test_case.calls))
    wrong = next(find_issues(case, offered), None)
    if wrong is not None:
        raise _LeftOutError(wrong.sentence())
    return case, notes


def _tools(providers: Any, file: Path, notes: list[str]) -> dict[str, CaseTool]:
    """Return the tools that providers are configured with, in OpenAI's format."""
    tools: dict[str, CaseTool] = {}
    for provider in listed(providers):
        if not isinstance(provider, Mapping):
            continue
        inner = provider if "config" in provider else next(iter(provider.values()), None)  # {"openai:gpt-5": {config}}
        config = table(inner.get("config")) if isinstance(inner, Mapping) else {}
        entries = config.get("tools", config.get("functions"))
        if isinstance(entries, str):
            entries = _tools_of_file(entries, file, notes)
        for tool in listed(entries):
            function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                notes.append("a tool without a name is left out")
                continue
            name = function["name"]
            parameters = table(function.get("parameters", function.get("input_schema")))
            tools[name] = CaseTool(
                name=name,
                description=str(function.get("description") or name),
                parameters={"type": "object", **parameters} if parameters else {"type": "object", "properties": {}},
            )
    return tools


def _tools_of_file(reference: str, file: Path, notes: list[str]) -> Any:
    path = _beside(reference, file)
    if path is None or path.suffix.lower() not in (".json", ".yaml", ".yml"):
        notes.append(f"tools: {reference} is left out: only .json and .yaml files below the tests' folder are read")
        return []
    try:
        return _loaded(path)
    except ConfigError as error:
        notes.append(f"tools: {error}")
        return []


def _prompts(prompts: Any, file: Path, notes: list[str]) -> Iterator[tuple[str | None, str]]:
    """Yield system prompt and message of each prompt."""
    for index, prompt in enumerate(listed(prompts), 1):
        raw = prompt.get("raw", prompt.get("id")) if isinstance(prompt, Mapping) else prompt
        if isinstance(raw, str) and raw.startswith("file://"):
            path = _beside(raw, file)
            if path is None or path.suffix.lower() not in (".txt", ".json", ".md"):
                notes.append(f"prompt {index} is left out: {raw} is not a text inside the tests' folder")
                continue
            try:
                raw = read_text(path)
            except ConfigError as error:
                notes.append(f"prompt {index} is left out: {error}")
                continue
        parsed = _parse_prompt(raw)
        if parsed is None:
            notes.append(
                f"prompt {index} is left out: it is not a single user message, with or without a system prompt"
            )
        else:
            yield parsed


def _parse_prompt(raw: Any) -> tuple[str | None, str] | None:
    """Extract system prompt and message from a text, or from messages in JSON; None for anything else."""
    if not isinstance(raw, str):
        return None
    try:
        messages = json.loads(raw) if raw.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        messages = None
    if messages is None:
        return None, raw
    parts = [(m.get("role"), m.get("content")) for m in messages if isinstance(m, Mapping)]
    texts = [content for _, content in parts if isinstance(content, str)]
    roles = [role for role, _ in parts]
    if len(texts) != len(parts) or roles not in (["user"], ["system", "user"]):
        return None
    return (texts[0] if len(texts) == 2 else None), texts[-1]


def _rendered(text: str, variables: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise _LeftOutError(f"its prompt asks for {{{{{match[1]}}}}}, and vars does not have it")
        variable = variables[match[1]]
        if isinstance(variable, str) and variable.startswith("file://"):
            raise _LeftOutError(f"its variable {match[1]} is in a file")
        return variable if isinstance(variable, str) else json.dumps(variable, ensure_ascii=False, default=str)

    if re.search(r"\{%|\{#", text) or len(_VARIABLE.findall(text)) != text.count("{{"):
        raise _LeftOutError("its template does more than fill in variables: {{name}}")
    return _VARIABLE.sub(value, text)


def _rendered_data(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and "{{" in value:
        try:
            return _rendered(value, variables)
        except _LeftOutError:
            return value
    if isinstance(value, Mapping):
        return {key: _rendered_data(inner, variables) for key, inner in value.items()}
    return [_rendered_data(inner, variables) for inner in value] if isinstance(value, list) else value


def _loaded(file: Path) -> Any:
    from flexchat.host import document_of

    text = read_text(file)
    if file.suffix.lower() == ".json":
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise failed(file, f"this is not JSON: {error}") from None
    else:
        data = _yaml(text, file)
    try:
        document = document_of({"": data})  # not too deep, and only what JSON can express
    except ConfigError as error:
        raise failed(file, error.problems[0].text) from None
    if document.problems:
        raise ConfigError([attrs.evolve(problem, source=str(file)) for problem in document.problems])
    return data


def _yaml(text: str, file: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise failed(file, MISSING) from None
    try:
        data = yaml.safe_load(text)
        if _size(data, {}) >= _TOO_MANY:
            raise ValueError("its aliases (*name) expand to too much")
        return data
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        deep = "nested too deeply" if isinstance(error, RecursionError) else None
        reason = deep or getattr(error, "problem", None) or str(error) or type(error).__name__
        line = mark.line + 1 if mark is not None else None
        problem = Problem(path="", text=f"this is not YAML: {reason}", source=str(file), line=line)
        raise ConfigError([problem]) from None


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Count the values within a value. Ten lines of nested YAML aliases can expand to gigabytes."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = _TOO_MANY  # something that contains itself has no end
        inner = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_size(item, sizes) for item in inner)
    return sizes[id(value)]


def _beside(reference: str, file: Path) -> Path | None:
    """Return the file that a reference names, if it is below the tests' folder."""
    folder = Path(os.path.realpath(file)).parent
    path = Path(os.path.realpath(folder / reference.removeprefix("file://")))
    return path if path.is_relative_to(folder) else None


def _unused(name: str, names: set[str]) -> str:
    return next(n for n in itertools.chain([name], (f"{name} ({i})" for i in itertools.count(2))) if n not in names)
