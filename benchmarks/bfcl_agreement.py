"""Holds our judge of the leaderboard's questions against the checker of the package bfcl-eval, answer by answer.

    python benchmarks/bfcl_agreement.py [--wheel FILE] [--attempts FILE] [--mutations N] [--seed N]

The wheel is fetched with pip into a temporary folder, never installed; its checker runs with stubs in place of what it
needs beyond the standard library. Both judge the answers of a file of results (--attempts: a JSON list of attempts, or
a validation.db), and synthetic ones: each ground truth as it is, and changed in many ways. Every disagreement is
printed with what both say. Exit status 1 if one remains that is not explained.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import types
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flexchat_validation.bfcl_rules import matches
from flexchat_validation.cases import Case
from flexchat_validation.importers.bfcl import read_bfcl

CATEGORIES = (
    *("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance"),
)

Calls = list[tuple[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel of bfcl-eval, if it is here already")
    parser.add_argument("--attempts", type=Path, help="results to judge: a JSON list of attempts, or a validation.db")
    parser.add_argument("--mutations", type=int, default=4, help="changed answers for each question")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = args.wheel or fetched(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        theirs = checker(Path(folder))
        questions = [*questions_of(Path(folder))]
        judge = Judges(theirs, questions)
        started = time.perf_counter()
        if args.attempts:
            report(f"answers of models in {args.attempts.name}", judge, [*made(args.attempts, questions)])
        chosen = random.Random(args.seed)
        answers = [pair for case, row in questions for pair in synthetic(case, row, chosen, args.mutations)]
        unexplained = report(f"synthetic answers to {len(questions)} questions", judge, answers)
        print(f"{time.perf_counter() - started:.1f} s")
    return 1 if unexplained or judge.unexplained else 0


def fetched(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "bfcl-eval"],
        check=True,
    )
    return next(folder.glob("*.whl"))


def checker(folder: Path) -> types.ModuleType:
    """Their checker. It asks a table of models only how dots in names are written, and imports parsers of Java."""

    class AnyModel(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return types.SimpleNamespace(underscore_to_dot=False)

    sys.path.insert(0, str(folder))
    stubs: dict[str, dict[str, Any]] = {
        "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": AnyModel()},
        "bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter": {"java_type_converter": None},
        "bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter": {"js_type_converter": None},
    }
    for name, content in stubs.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module
    return importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")


def questions_of(folder: Path) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Our case and their rows (question and ground truth) for every question that we take over."""
    for category in CATEGORIES:
        file = folder / "bfcl_eval" / "data" / f"BFCL_v4_{category}.json"
        imported = read_bfcl(file)
        for note in imported.notes:
            print(f"left out: {note}")
        rows = {row["id"]: row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
        truths = file.parent / "possible_answer" / file.name
        if truths.exists():
            for row in map(json.loads, truths.read_text(encoding="utf-8").splitlines()):
                rows[row["id"]]["ground_truth"] = row["ground_truth"]
        yield from ((case, {**rows[case.name], "category": category}) for case in imported.cases)


class Judges:
    """Asks both, and counts."""

    def __init__(self, theirs: Any, questions: list[tuple[Case, dict[str, Any]]]) -> None:
        self._theirs = theirs
        self._rows = {case.name: row for case, row in questions}
        self.unexplained = 0

    def ours(self, case: Case, calls: Calls) -> list[str]:
        if case.no_call:
            return ["a call was made"] if calls else []
        return matches(case.possible_answers or (), calls, {t.name: t.parameters for t in case.own_tools})

    def other(self, case: Case, calls: Calls) -> tuple[bool | None, str]:
        """Their verdict and its reason; None where they crash."""
        row = self._rows[case.name]
        if "ground_truth" not in row:
            return not calls, "irrelevance: no call"
        from bfcl_eval.constants.enums import Language

        output = [{name: copy.deepcopy(params)} for name, params in calls]
        functions, truth = copy.deepcopy(row["function"]), copy.deepcopy(row["ground_truth"])
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                found = self._theirs.ast_checker(functions, output, truth, Language.PYTHON, row["category"], "any")
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        return bool(found["valid"]), str(found.get("error"))[:300]

    def explained(self, case: Case, calls: Calls, ours: bool, theirs: bool | None) -> str | None:
        """Why we may differ; None if we may not."""
        if theirs is None:
            return "their checker crashes"
        if ours and not theirs and len(case.possible_answers or ()) > 1 and self._reordered(case, calls):
            return "theirs gives each expected call the first that fits, and so may leave none for another"
        return None

    def _reordered(self, case: Case, calls: Calls) -> bool:
        """Whether they accept the same calls in another order."""
        chosen = random.Random(0)
        orders = [chosen.sample(calls, len(calls)) for _ in range(50)]
        return any(self.other(case, order)[0] for order in orders)


def report(title: str, judges: Judges, answers: list[tuple[Case, Calls, str]]) -> int:
    """Judge all, print what differs; return how many differences are not explained."""
    outcomes, reasons, of_kind = Counter[str](), Counter[str](), Counter[str]()
    unexplained = 0
    for case, calls, kind in answers:
        problems = judges.ours(case, calls)
        theirs, reason = judges.other(case, calls)
        outcomes[f"we {'accept' if not problems else 'refuse'}, they {_spoken(theirs)}"] += 1
        of_kind[f"{kind}: {'accepted' if not problems else 'refused'}"] += 1
        if (not problems) == theirs:
            continue
        why = judges.explained(case, calls, not problems, theirs)
        reasons[why or "NOT EXPLAINED"] += 1
        unexplained += why is None
        if why is None or reasons[why] <= 3:
            print(f"  {case.name} ({kind}): {why or 'NOT EXPLAINED'}\n    calls: {json.dumps(calls)[:400]}")
            print(f"    ours: {problems or 'accepted'}\n    theirs: {_spoken(theirs)}: {reason}")
    agreed = sum(n for name, n in outcomes.items() if name in ("we accept, they accept", "we refuse, they refuse"))
    print(f"{title}: {len(answers)} judged, {agreed} agreed; {dict(outcomes)}; differences: {dict(reasons) or 'none'}")
    print(f"  by kind: {dict(sorted(of_kind.items()))}")
    judges.unexplained += unexplained
    return unexplained


def _spoken(verdict: bool | None) -> str:
    return {True: "accept", False: "refuse", None: "crash"}[verdict]


def made(file: Path, questions: list[tuple[Case, dict[str, Any]]]) -> Iterator[tuple[Case, Calls, str]]:
    """The calls of attempts that came to an end, by the names of their cases."""
    known = {case.name: case for case, _ in questions}
    for attempt in attempts_in(file):
        case = known.get(attempt.get("case"))
        if case is None or attempt.get("outcome") == "error":
            continue
        calls = [(call["tool"], call["params"]) for call in attempt.get("calls", ())]
        yield case, calls, f"model, kept as {attempt['outcome']}"


def attempts_in(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".json":
        data = json.loads(file.read_text(encoding="utf-8"))
        return data["attempts"] if isinstance(data, dict) else data
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(attempts)")]
        rows = [dict(zip(columns, row, strict=True)) for row in database.execute("SELECT * FROM attempts")]
    return [merged(row) for row in rows]


def merged(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the database with the JSON in its columns read."""
    read: dict[str, Any] = {}
    for name, value in row.items():
        with contextlib.suppress(ValueError, TypeError):
            value = json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value
        if isinstance(value, dict) and "outcome" in value:
            read.update(value)
        else:
            read.setdefault(name, value)
    return read


def synthetic(
    case: Case, row: Mapping[str, Any], chosen: random.Random, count: int
) -> Iterator[tuple[Case, Calls, str]]:
    """A right answer, and wrong and nearly right ones."""
    if case.no_call:
        yield case, [], "no call"
        yield case, [("some_function", {})], "a call"
        return
    for everything in (True, False):
        yield case, right(row, chosen, optional=everything), "ground truth"
    for _ in range(count):
        calls = right(row, chosen, optional=chosen.random() < 0.7)
        change = chosen.choice(CHANGES)
        yield case, change(calls, row, chosen), change.__name__


def right(row: Mapping[str, Any], chosen: random.Random, *, optional: bool) -> Calls:
    calls: Calls = []
    for truth in row["ground_truth"]:
        ((name, wanted),) = truth.items()
        properties = next(f for f in row["function"] if f["name"] == name)["parameters"]["properties"]
        params = {}
        for argument, values in wanted.items():
            values_given = [value for value in values if value != ""]
            if ("" in values and not optional) or not values_given:
                continue
            params[argument] = value_of(chosen.choice(values_given), properties.get(argument, {}))
        calls.append((name, params))
    return calls


def value_of(value: Any, schema: Mapping[str, Any]) -> Any:
    """An answer from the ground truth's value: objects have a list of values for each key there."""
    items = schema.get("items", {}).get("type")
    if schema.get("type") == "dict" and isinstance(value, dict):
        return {key: values[0] for key, values in value.items() if values and values[0] != ""}
    if schema.get("type") == "array" and items == "dict" and isinstance(value, list):
        return [value_of(item, {"type": "dict"}) for item in value]
    return copy.deepcopy(value)


def _argument(calls: Calls, chosen: random.Random) -> tuple[dict[str, Any], str] | None:
    filled = [params for _, params in calls if params]
    if not filled:
        return None
    params = chosen.choice(filled)
    return params, chosen.choice([*params])


def _changed(calls: Calls, chosen: random.Random, change: Any) -> Calls:
    found = _argument(calls, chosen)
    if found is not None:
        params, name = found
        params[name] = change(params[name])
    return calls


def drop_argument(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    found = _argument(calls, chosen)
    if found is not None:
        del found[0][found[1]]
    return calls


def unknown_argument(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    chosen.choice(calls)[1]["unheard_of"] = 1
    return calls


def another_argument(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    name, params = chosen.choice(calls)
    function = next(f for f in row["function"] if f["name"] == name)
    argument = chosen.choice([*function["parameters"]["properties"], "x"])
    params.setdefault(argument, chosen.choice(["", None, 0, False, "x", [], {}]))
    return calls


def number_as_text(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return _changed(calls, chosen, lambda v: str(v))


def number_as_float(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    def change(v: Any) -> Any:
        if type(v) is int:
            return float(v)
        if type(v) is float and v == v // 1:
            return int(v)
        return [change(inner) for inner in v] if isinstance(v, list) else v

    return _changed(calls, chosen, change)


def number_off(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return _changed(calls, chosen, lambda v: v + 1 if isinstance(v, (int, float)) else [v] if v else v)


def boolean(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return _changed(calls, chosen, lambda v: not v if isinstance(v, bool) else chosen.choice([True, 1, 0]))


def null(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return _changed(calls, chosen, lambda v: None)


def other_case(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    def change(v: Any) -> Any:
        if isinstance(v, str):
            return v.upper() if chosen.random() < 0.5 else v.swapcase()
        return [change(inner) for inner in v] if isinstance(v, list) else v

    return _changed(calls, chosen, change)


def punctuation(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    def change(v: Any) -> Any:
        if isinstance(v, str):
            at = chosen.randrange(len(v) + 1)
            return v[:at] + chosen.choice([" ", ",", ".", "/", "-", "_", "*", "^", "'", '"', "!", "\n"]) + v[at:]
        if isinstance(v, dict):
            return {key: change(inner) for key, inner in v.items()}
        return [change(inner) for inner in v] if isinstance(v, list) else v

    return _changed(calls, chosen, change)


def wrapped(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return _changed(calls, chosen, lambda v: [v] if chosen.random() < 0.5 else {"value": v})


def list_changed(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    def change(v: Any) -> Any:
        if isinstance(v, list):
            return chosen.choice([v[::-1], v[:-1], [*v, *v[:1]], [*map(str, v)], [], [None, *v], tuple(v)])
        if isinstance(v, dict):
            return chosen.choice([{**v, "more": 1}, dict([*v.items()][1:]), {k: [i] for k, i in v.items()}, {}])
        return v

    return _changed(calls, chosen, change)


def other_function(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    index = chosen.randrange(len(calls))
    names = [f["name"] for f in row["function"]] + ["unheard_of", calls[index][0].replace(".", "_")]
    calls[index] = (chosen.choice(names), calls[index][1])
    return calls


def one_call_less(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    calls.pop(chosen.randrange(len(calls)))
    return calls


def one_call_twice(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return [*calls, copy.deepcopy(chosen.choice(calls))]


def one_for_another(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    calls[chosen.randrange(len(calls))] = copy.deepcopy(chosen.choice(calls))
    return calls


def shuffled(calls: Calls, row: Any, chosen: random.Random) -> Calls:
    return chosen.sample(calls, len(calls))


CHANGES = (
    drop_argument, unknown_argument, another_argument, number_as_text, number_as_float, number_off, boolean, null,
    other_case, punctuation, wrapped, list_changed, other_function, one_call_less, one_call_twice, one_for_another,
    shuffled,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
