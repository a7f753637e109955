"""Takes over promptfoo's tests of tool calls as cases. What has no counterpart here is said in a note, test by test.

Read are prompts, tests (vars, assert, description), defaultTest, and the tools of providers in OpenAI's form. Nothing
that a file holds or names is run: no JavaScript, no Python, no template but {{name}}.

Source: promptfoo's configuration reference and "Deterministic metrics" (names and values of assertions).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from ..config.cases import AnswerCheck, ArgumentCheck, Case, CaseTool, ExpectedCall
from ..errors import ConfigError, Problem
from .checking import Offered, flaws_of
from .reading import Imported, read_text

MISSING = "promptfoo's YAML needs a reader: pip install 'flexchat-core[yaml]'"

_MOST = 10_000
_TOO_MANY = 1_000_000
_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}")
_CODE = ("javascript", "python", "ruby", "webhook")
_VALID_CALL = ("is-valid-openai-tools-call", "is-valid-openai-function-call", "is-valid-function-call")
_GRADED = ("llm-rubric", "model-graded-closedqa", "factuality", "g-eval", "similar", "answer-relevance", "pi")


class _LeftOutError(Exception):
    """A test cannot be taken over; the text says why."""


@attrs.define
class _Wanted:
    """What a test's assertions come to, while they are read."""

    tools: Mapping[str, CaseTool]
    calls: list[ExpectedCall] = attrs.field(factory=list)
    order: bool = False
    extra_calls: bool = False
    valid: bool = False
    contains: list[str] = attrs.field(factory=list)
    regex: str | None = None
    notes: list[str] = attrs.field(factory=list)


def read_promptfoo(file: Path, *, limit: int | None = None) -> Imported:
    """Return a file's tests as cases: one for each prompt, test and combination of variables.

    Args:
        limit: How many cases at most.

    Raises:
        ConfigError: The file cannot be read, or has no tests.
    """
    data = _loaded(file)
    if not isinstance(data, Mapping) or not isinstance(data.get("tests"), list):
        raise _failed(file, "promptfoo's tests are expected in a list 'tests' of this file")
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
            notes.append(f"{title}: left out: it is no table")
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
    """Yield each prompt with each combination of variables; a list in vars stands for one value after the other."""
    given = {**_table(default.get("vars")), **_table(test.get("vars"))}
    options = [value if isinstance(value, list) and value else [value] for value in given.values()]
    for index, prompt in enumerate(prompts, 1):
        for number, values in enumerate(itertools.product(*options), 1):
            name = title + (f", prompt {index}" if len(prompts) > 1 else "")
            yield name + (f" ({number})" if number > 1 else ""), dict(zip(given, values, strict=True)), prompt


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
    options = _table(test.get("options"))
    provider = test.get("provider", options.get("provider"))
    tools = {**tools, **_tools([options, provider], file, notes)}
    wanted = _Wanted(tools, notes=notes)
    for assertion in [*_listed(default.get("assert")), *_listed(test.get("assert"))]:
        _read_assertion(_rendered_data(assertion, variables), wanted)
    _complete(wanted)
    if not wanted.calls:
        why = "; ".join(notes) or "it has no assertion about them"
        raise _LeftOutError(f"it does not say which tools are called ({why})")
    answer = wanted.contains or wanted.regex
    metadata = _table(test.get("metadata"))
    tags = ("promptfoo", *(str(metadata[key]) for key in ("category",) if isinstance(metadata.get(key), str)))
    case = Case(
        name=name,
        message=_rendered(message, variables),
        prompt=None if prompt is None else _rendered(prompt, variables),
        calls=tuple(wanted.calls),
        order="given" if wanted.order else "any",
        extra_calls=wanted.extra_calls,
        answer=AnswerCheck(contains=tuple(wanted.contains), regex=wanted.regex) if answer else None,
        tools=() if tools else None,
        own_tools=tuple(tools.values()),
        tags=tags,
    )
    offered = Offered() if tools else Offered(parameters=dict.fromkeys(call.tool for call in wanted.calls))
    wrong = next(flaws_of(case, offered), None)
    if wrong is not None:
        raise _LeftOutError(wrong.sentence())
    return case, notes


def _read_assertion(assertion: Any, wanted: _Wanted) -> None:
    if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
        wanted.notes.append("an assertion without a type is left out")
        return
    kind, value = assertion["type"], assertion.get("value")
    base = kind.removeprefix("not-").partition(":")[0]
    if kind in _VALID_CALL:
        wanted.valid = True
    elif kind in _READERS:
        try:
            _READERS[kind](value, assertion, wanted)
        except (TypeError, ValueError, KeyError) as error:
            wanted.notes.append(f"{kind} is left out: {error or 'its value is not understood'}")
    elif kind == "assert-set":
        for inner in _listed(assertion.get("assert")):
            _read_assertion(inner, wanted)
    elif base in _CODE:
        wanted.notes.append(f"{kind} is left out: it is code, and is not run")
    elif base in _GRADED:
        wanted.notes.append(f"{kind} is left out: another model judges it")
    else:
        wanted.notes.append(f"{kind} is left out: cases have nothing like it")


def _f1(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    names = value.split(",") if isinstance(value, str) else _names(value)
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise ValueError("it names no tool")
    if float(assertion.get("threshold", 1)) < 1:
        wanted.notes.append("tool-call-f1: its threshold is taken as 1: all of these calls and no others")
    _add_calls(wanted, [ExpectedCall(tool=name) for name in dict.fromkeys(names)])


def _tool_used(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    if isinstance(value, Mapping):
        if "pattern" in value and "name" not in value and re.search(r"[*?]", str(value["pattern"])):
            raise ValueError("it names tools by a pattern")
        name, least = str(value.get("name", value.get("pattern"))), int(value.get("min", 1))
        if "max" in value and int(value["max"]) == 0:
            raise ValueError("it says which tool is not called, and cases say which are")
        names = [name] * least
    else:
        names = [value] if isinstance(value, str) else _names(value)
    _add_calls(wanted, [ExpectedCall(tool=name) for name in names])
    wanted.extra_calls = True


def _tool_arguments(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    value = _table(value)
    name, arguments = value.get("name", value.get("tool")), value.get("args", value.get("arguments"))
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ValueError("it does not name a tool and its arguments")
    exact = value.get("mode") == "exact"
    _add_calls(wanted, [ExpectedCall(tool=name, arguments=dict(arguments), other_arguments=not exact)])
    wanted.extra_calls = True


def _sequence(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    names = [str(step.get("name")) if isinstance(step, Mapping) else step for step in _listed(steps)]
    exact = isinstance(value, Mapping) and value.get("mode") == "exact"
    if wanted.calls and not exact:
        wanted.extra_calls = True
    earlier = {call.tool: call for call in wanted.calls}
    wanted.calls = [earlier.get(name, ExpectedCall(tool=name)) for name in _names(names)]
    wanted.order, wanted.extra_calls = True, wanted.extra_calls or not exact


def _contains(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    texts = [str(text) for text in _listed(value)]
    if not texts or any(isinstance(text, (Mapping, list)) for text in _listed(value)):
        raise ValueError("its value is no text")
    wanted.contains += texts
    if not str(assertion["type"]).startswith("i"):
        wanted.notes.append(f"{assertion['type']}: upper and lower case count alike")


def _contains_any(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    alternatives = "|".join(re.escape(str(text)) for text in _listed(value))
    ignoring = str(assertion["type"]).startswith("i")
    _set_regex(f"(?i:{alternatives})" if ignoring else f"(?:{alternatives})", wanted)


def _regex(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    if not isinstance(value, str):
        raise ValueError("its value is no text")
    _set_regex(value, wanted)


def _equals(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    if not isinstance(value, str):
        raise ValueError("only texts can be compared with the answer")
    _set_regex(f"^{re.escape(value)}$", wanted)


def _starts_with(value: Any, assertion: Mapping[str, Any], wanted: _Wanted) -> None:
    _set_regex(f"^{re.escape(str(value))}", wanted)


def _set_regex(pattern: str, wanted: _Wanted) -> None:
    if wanted.regex is not None:
        raise ValueError("a case has one pattern for the answer")
    wanted.regex = pattern


_READERS: Mapping[str, Callable[[Any, Mapping[str, Any], _Wanted], None]] = {
    "tool-call-f1": _f1,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_arguments,
    "trajectory:tool-sequence": _sequence,
    "contains": _contains,
    "icontains": _contains,
    "contains-all": _contains,
    "icontains-all": _contains,
    "contains-any": _contains_any,
    "icontains-any": _contains_any,
    "regex": _regex,
    "equals": _equals,
    "starts-with": _starts_with,
}


def _add_calls(wanted: _Wanted, calls: Sequence[ExpectedCall]) -> None:
    """Add calls; one with arguments says more of a call that is expected already than that it is made."""
    for call in calls:
        same = [other for other in wanted.calls if other.tool == call.tool]
        bare = [other for other in same if not other.arguments]
        if call.arguments and bare:
            wanted.calls[wanted.calls.index(bare[0])] = call
        elif call.arguments or sum(c.tool == call.tool for c in calls) > len(same):
            wanted.calls.append(call)


def _complete(wanted: _Wanted) -> None:
    """Hold the calls to their tools' schemas where the test asks for valid calls."""
    if not wanted.valid:
        return
    if not wanted.calls and len(wanted.tools) == 1:
        wanted.calls = [ExpectedCall(tool=name) for name in wanted.tools]
        wanted.extra_calls = True
    elif not wanted.calls:
        wanted.notes.append("a valid call is asked for, but of several tools it does not say which")
    wanted.calls = [_valid(call, wanted.tools.get(call.tool)) for call in wanted.calls]


def _valid(call: ExpectedCall, tool: CaseTool | None) -> ExpectedCall:
    schema = tool.parameters if tool is not None else {}
    required = schema.get("required", ())
    checks = {
        name: ArgumentCheck(schema=inner, optional=name not in required)
        for name, inner in _table(schema.get("properties")).items()
        if name not in call.arguments and isinstance(inner, Mapping)
    }
    return attrs.evolve(call, check={**checks, **call.check})


def _tools(providers: Any, file: Path, notes: list[str]) -> dict[str, CaseTool]:
    """Return the tools that providers are configured with, in OpenAI's form."""
    found: dict[str, CaseTool] = {}
    for provider in _listed(providers):
        if not isinstance(provider, Mapping):
            continue
        inner = provider if "config" in provider else next(iter(provider.values()), None)  # {"openai:gpt-5": {config}}
        config = _table(inner.get("config")) if isinstance(inner, Mapping) else {}
        listed = config.get("tools", config.get("functions"))
        if isinstance(listed, str):
            listed = _tools_of_file(listed, file, notes)
        for tool in _listed(listed):
            function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                notes.append("a tool without a name is left out")
                continue
            name = function["name"]
            parameters = _table(function.get("parameters", function.get("input_schema")))
            found[name] = CaseTool(
                name=name,
                description=str(function.get("description") or name),
                parameters={"type": "object", **parameters} if parameters else {"type": "object", "properties": {}},
            )
    return found


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
    for index, prompt in enumerate(_listed(prompts), 1):
        raw = prompt.get("raw", prompt.get("id")) if isinstance(prompt, Mapping) else prompt
        if isinstance(raw, str) and raw.startswith("file://"):
            path = _beside(raw, file)
            if path is None or path.suffix.lower() not in (".txt", ".json", ".md"):
                notes.append(f"prompt {index} is left out: {raw} is no text below the tests' folder")
                continue
            try:
                raw = read_text(path)
            except ConfigError as error:
                notes.append(f"prompt {index} is left out: {error}")
                continue
        said = _said(raw)
        if said is None:
            notes.append(
                f"prompt {index} is left out: it is not one message of the user, with or without a system prompt"
            )
        else:
            yield said


def _said(raw: Any) -> tuple[str | None, str] | None:
    """Return system prompt and message of a text, or of messages written as JSON."""
    if not isinstance(raw, str):
        return None
    try:
        messages = json.loads(raw) if raw.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        messages = None
    if messages is None:
        return None, raw
    said = [(m.get("role"), m.get("content")) for m in messages if isinstance(m, Mapping)]
    texts = [content for _, content in said if isinstance(content, str)]
    roles = [role for role, _ in said]
    if len(texts) != len(said) or roles not in (["user"], ["system", "user"]):
        return None
    return (texts[0] if len(texts) == 2 else None), texts[-1]


def _rendered(text: str, variables: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in variables:
            raise _LeftOutError(f"its prompt asks for {{{{{found[1]}}}}}, and vars does not have it")
        given = variables[found[1]]
        if isinstance(given, str) and given.startswith("file://"):
            raise _LeftOutError(f"its variable {found[1]} is in a file")
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)

    if re.search(r"\{%|\{#", text) or len(_VARIABLE.findall(text)) != text.count("{{"):
        raise _LeftOutError("its template does more than put in variables: {{name}}")
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
    from ..config.document import document_of

    text = read_text(file)
    if file.suffix.lower() == ".json":
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _failed(file, f"this is not JSON: {error}") from None
    else:
        data = _yaml(text, file)
    try:
        document = document_of({"": data})  # not too deep, and nothing that JSON cannot say
    except ConfigError as error:
        raise _failed(file, error.problems[0].text) from None
    if document.problems:
        raise ConfigError([attrs.evolve(problem, source=str(file)) for problem in document.problems])
    return data


def _yaml(text: str, file: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise _failed(file, MISSING) from None
    try:
        data = yaml.safe_load(text)
        if _size(data, {}) >= _TOO_MANY:
            raise ValueError("its aliases (*name) stand for too much")
        return data
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        deep = "nested too deeply" if isinstance(error, RecursionError) else None
        reason = deep or getattr(error, "problem", None) or str(error) or type(error).__name__
        line = mark.line + 1 if mark is not None else None
        problem = Problem(path="", text=f"this is not YAML: {reason}", source=str(file), line=line)
        raise ConfigError([problem]) from None


def _size(value: Any, known: dict[int, int]) -> int:
    """Return how many values a value holds. Ten lines of aliases of aliases can stand for gigabytes."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = _TOO_MANY  # what holds itself has no end
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(item, known) for item in inner)
    return known[id(value)]


def _beside(reference: str, file: Path) -> Path | None:
    """Return the file that a reference names, if it is below the folder of the tests."""
    folder = file.resolve().parent
    path = (folder / reference.removeprefix("file://")).resolve()
    return path if path.is_relative_to(folder) else None


def _unused(name: str, names: set[str]) -> str:
    return next(n for n in itertools.chain([name], (f"{name} ({i})" for i in itertools.count(2))) if n not in names)


def _names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("its value is no list of tools")
    return value


def _table(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _failed(file: Path, text: str) -> ConfigError:
    return ConfigError([Problem(path="", text=text, source=str(file))])
