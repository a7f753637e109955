"""numexpr computes with lists: it is loaded for them alone, and gets nothing that a user wrote."""

import contextlib
import os
import subprocess
import sys

import numpy
import pytest
from flexchat_builtin import engine
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.functions import FUNCTIONS
from flexchat_builtin.parameters import MathError


def test_numexpr_is_called_with_constant_templates_and_floats_only(monkeypatch):
    """Nothing a user writes reaches numexpr: not text, not a whole number, not a variable of ours. And no number."""
    calls = []
    evaluate_for_real = engine.load()

    def recorded(*args, **kwargs):
        calls.append((args, kwargs))
        return evaluate_for_real(*args, **kwargs)

    monkeypatch.setattr(engine, "load", lambda: recorded)
    for name, function in FUNCTIONS.items():
        number = "0" if name == "atanh" else "1"
        evaluate("1 + 2 * " + ("3" if name == "dot" else f"{name}({', '.join([number] * function.min_count)})"))
    assert calls == []

    for name, function in FUNCTIONS.items():
        lists = ["[0, 0.5]" if name == "atanh" else "[1, 1]"] * min(function.min_count, function.max_count)
        with contextlib.suppress(MathError):  # factorial and the like take no lists
            evaluate(f"[1, 2] + 3 - {name}({', '.join(lists)}) .* [2, 9007199254740993]")
    assert len(calls) > 2 * len(FUNCTIONS)
    for (template, *more), keywords in calls:
        variables = keywords.pop("local_dict")
        assert template in engine.TEMPLATES.values()
        assert not more
        assert keywords == {"global_dict": {}, "sanitize": True}
        assert {*variables} <= {"a", "b"}
        assert {(type(value), value.dtype) for value in variables.values()} == {(numpy.ndarray, numpy.dtype(float))}


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("+", ([1.0, 2.0], [3.0, 4.0]), [4.0, 6.0]),
        ("*", ([1.0, 2.0], 3.0), [3.0, 6.0]),
        ("sqrt", ([4.0],), [2.0]),
        ("sum", ([0.1, 0.2, 0.3],), [0.6000000000000001]),
        ("prod", ([2.0, 3.0],), [6.0]),
    ],
)
def test_a_template_is_applied_to_every_element(name, operands, result):
    assert engine.compute_list(name, *operands) == result


def test_numexpr_comes_with_the_first_list_and_says_nothing():
    """Neither the plugin nor a sum loads anything heavy; the first list starts no threads and logs nothing."""
    program = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
import flexchat_builtin.plugin as plugin
list(plugin.flexchat_register_tools()); list(plugin.flexchat_register_tool_handlers())
heavy = ("numexpr", "numpy", "re2", "httpx", "aiohttp", "jsonschema", "cattrs")
print([name for name in heavy if name in sys.modules])
from flexchat_builtin.arithmetic import evaluate
print(evaluate("6 * 7 + sqrt(4) + max(1, 2) + round(2.5) + 17% of 230 + 4! + gcd(4, 6)"))
print([name for name in heavy if name in sys.modules])
print(evaluate("[6] * 7"))
import numexpr
print(numexpr.get_num_threads(), logging.getLogger("numexpr.utils").disabled)
"""

    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMEXPR", "OMP", "COVERAGE"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "114.1", "[]", "[42]", "1 False"]


def test_a_program_that_uses_numexpr_itself_keeps_its_threads():
    """Where numexpr is already loaded, its number of threads is not touched."""
    program = """
import numexpr
numexpr.set_num_threads(2)
from flexchat_builtin.arithmetic import evaluate
print(evaluate("[6] * 7"), numexpr.get_num_threads())
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("[42] 2\n", "")
