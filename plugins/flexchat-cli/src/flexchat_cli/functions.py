"""--functions CODE|FILE: tools made of the functions in a text or a file of Python."""

from __future__ import annotations

import inspect
import linecache
import types
from collections.abc import Iterator, Sequence

from flexchat.domain import ToolDefinition
from flexchat.errors import ToolDefinitionError
from flexchat.plugin.foreign import contained, error_name
from flexchat.tools.python_function import FunctionTool, tool

from .standard_input import read_text_file
from .usage import UsageError

_MAX_BYTES = 1024 * 1024


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
                else tool(name=each, description=None if inspect.getdoc(value) else each.replace("_", " "))(value)
            )
        except ToolDefinitionError as error:
            raise UsageError(f"{where}: {error}") from None
        yield function_tool.definition
    if not has_tool:
        raise UsageError(f"{where}: it defines no function")
