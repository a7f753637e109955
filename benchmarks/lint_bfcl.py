"""Lints every tool of the Berkeley Function Calling Leaderboard for every installed provider, and checks what is sent.

    python benchmarks/lint_bfcl.py [--wheel FILE]

The tools come from the wheel of the package bfcl-eval (fetched with pip into a temporary folder, never installed).
Their types are those of Python, Java and JavaScript: they are put into JSON Schema's words by the leaderboard's own
table. What is sent is then shown to the vendors' SDK types (google-genai, ollama) and to a check of OpenAI's strict
rules that knows nothing of the rewriting. Exit status 1 if anything crashed or a check failed.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flexchat import ToolDefinition
from flexchat.host import ToolDefinitionError
from flexchat.plugin import Implementation
from flexchat.schema.limits import schema_problems
from flexchat.tools.registry import wire_names
from flexchat_gemini.dialects import JSON_SCHEMA, PARAMETERS
from flexchat_ollama.tools import TOOLS
from flexchat_openai.dialects import LOOSE, STRICT
from flexchat_sdk.dialects.lint import lint_tools
from flexchat_sdk.dialects.rewrite import rewrite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "integration"))
from test_schema_dialects import dropped_by_ollama, strict_problems

DIALECTS = {dialect.name: dialect for dialect in (LOOSE, STRICT, TOOLS, JSON_SCHEMA, PARAMETERS)}

# bfcl_eval.constants.type_mappings, GORILLA_TO_OPENAPI; every other word means string there.
TYPES = {
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("object", "dict", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("string", "char", "String", "any", "Any"), "string"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel of bfcl-eval, if it is here already")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = args.wheel or fetched(Path(folder))
        functions = [*distinct(functions_of(wheel))]
    print(f"{wheel.name}: {len(functions)} distinct functions, {sum('.' in f['name'] for f in functions)} with a dot")

    changed = Counter[str]()
    schemas = [(function, normalised(function["parameters"], changed)) for function in functions]
    print(f"words for types that are none of JSON Schema's: {sum(changed.values())} {dict(changed.most_common())}")

    failures = rewritten_all(schemas)
    tools, left_out = usable(schemas)
    print(f"{len(tools)} are tools for FlexChat; left out: {dict(left_out.most_common())}")
    sent = wire_names({tool.name for tool in tools})
    print(f"{sum(name != wire for name, wire in sent.items())} names are sent under another")

    started = time.perf_counter()
    findings = [finding for finding in lint_tools(tools, DIALECTS) if finding.tool]
    took = time.perf_counter() - started
    print(f"linted {len(tools)} tools x {len(DIALECTS)} dialects in {took * 1000:.0f} ms")
    for name in DIALECTS:
        of_dialect = [finding for finding in findings if finding.dialect == name]
        outcomes = Counter(finding.outcome for finding in of_dialect)
        rewritten = [f for f in of_dialect if f.outcome == "rewritten"]
        lossy = sum(any(note.severity == "warning" for note in f.notes) for f in rewritten)
        in_name_only = sum(all(note.keyword == "name" for note in f.notes) for f in rewritten)
        reasons = Counter(note.keyword for f in of_dialect for note in f.notes if note.severity == "error")
        print(f"  {name}: accepted {outcomes['accepted']}, rewritten {len(rewritten)}", end=" ")
        print(f"({in_name_only} in name only, {lossy} with a loss), refused {outcomes['refused']}", end=" ")
        print(dict(reasons.most_common()) or "")
    print(f"{len(failures)} failures" + "".join(f"\n  {failure}" for failure in failures[:20]))
    return 1 if failures else 0


def fetched(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "bfcl-eval"],
        check=True,
    )
    return next(folder.glob("*.whl"))


def functions_of(wheel: Path) -> Iterator[dict[str, Any]]:
    """Every function definition of the data: of questions, and of the documents of multi-turn classes."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if "/data/" not in name or not name.endswith(".json") or "possible_answer" in name:
                continue
            for line in archive.read(name).decode("utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # a file that is one document over several lines
                    break
                entry = entry if isinstance(entry, dict) else {}
                given = entry.get("function", [entry])
                for function in given if isinstance(given, list) else [given]:
                    if isinstance(function, dict) and {"name", "parameters"} <= function.keys():
                        yield function


def distinct(functions: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen = set()
    for function in functions:
        key = json.dumps([function["name"], function["parameters"]], sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield function


def normalised(schema: Any, changed: Counter[str]) -> Any:
    """A copy with JSON Schema's names of types, at every depth."""
    if not isinstance(schema, dict):
        return copy.deepcopy(schema)
    made = dict(schema)
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = TYPES.get(kind, "string")
        changed[kind] += made["type"] != kind
    if isinstance(made.get("properties"), dict):
        made["properties"] = {name: normalised(inner, changed) for name, inner in made["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in made:
            made[keyword] = normalised(made[keyword], changed)
    return made


def rewritten_all(schemas: list[tuple[dict[str, Any], Any]]) -> list[str]:
    """Rewrite every schema, as it came and normalised, and show what is sent to the vendors' types."""
    checks = vendors()
    failures = []
    for function, schema in schemas:
        for dialect in DIALECTS.values():
            try:
                rewrite(function["parameters"], dialect)
                made = rewrite(schema, dialect)
                again = rewrite(made.schema or {}, dialect)
            except Exception as error:
                failures.append(f"{function['name']}, {dialect.name}: crashed: {error!r}")
                continue
            if made.schema is None:
                continue
            if again.schema != made.schema or any(note.severity != "info" for note in again.notes):
                failures.append(f"{function['name']}, {dialect.name}: rewriting again changes it")
            problem = checks[dialect.name](dict(made.schema))
            if problem:
                failures.append(f"{function['name']}, {dialect.name}: {problem}")
    return failures


def vendors() -> dict[str, Callable[[dict[str, Any]], str]]:
    """What is wrong with a schema in the eyes of each vendor; an empty text if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.genai import types
        from jsonschema import Draft202012Validator, SchemaError
    from ollama import Tool

    def google(field: str) -> Callable[[dict[str, Any]], str]:
        def check(schema: dict[str, Any]) -> str:
            try:
                types.FunctionDeclaration.model_validate({"name": "f", field: schema})
            except ValueError as error:
                return str(error)
            return ""

        return check

    def ollama(schema: dict[str, Any]) -> str:
        try:
            Tool.model_validate({"function": {"name": "f", "parameters": schema}})
        except ValueError as error:
            return str(error)
        return ", ".join(dropped_by_ollama(schema))

    def openai(schema: dict[str, Any]) -> str:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            return error.message
        return ""

    return {
        LOOSE.name: openai,
        STRICT.name: lambda schema: "; ".join(strict_problems(schema)),
        TOOLS.name: ollama,
        JSON_SCHEMA.name: google("parametersJsonSchema"),
        PARAMETERS.name: google("parameters"),
    }


def usable(schemas: list[tuple[dict[str, Any], Any]]) -> tuple[list[ToolDefinition], Counter[str]]:
    """The tools that a registry would take, and why it leaves out the others."""
    tools, left_out = [], Counter[str]()
    for function, schema in schemas:
        try:
            tool = ToolDefinition(
                name=function["name"],
                description=function.get("description") or "",
                parameters=schema,
                implementation=Implementation(type="mock"),
            )
        except ToolDefinitionError as error:
            left_out[str(error)[:80]] += 1
            continue
        problems = schema_problems(tool.parameters)
        if problems:
            left_out[problems[0].split(": ", 1)[-1][:80]] += 1
        else:
            tools.append(tool)
    return tools, left_out


if __name__ == "__main__":
    sys.exit(main())
