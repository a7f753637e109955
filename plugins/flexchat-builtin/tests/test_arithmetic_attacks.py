"""No expression runs code, and none reaches numexpr (TC-117, DS-11)."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import flexchat_builtin
import pytest
from flexchat_builtin import engine
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.errors import MathError
from flexchat_builtin.functions import FUNCTIONS

ATTACKS = [
    "(1).__class__",
    "(1).__class__.__base__.__subclasses__()",
    "__import__('os').system('touch MARKER')",
    "2+2; import os",
    "lambda: open('MARKER','w')",
    "[open('MARKER','w') for i in (1,)]",
    "(*(open('MARKER','w') for i in (1,)),)",
    "{*(open('MARKER','w') for i in (1,))}",
    "{open('MARKER','w') for i in (1,)}",
    "{1: open('MARKER','w')}",
    "sqrt(*(open('MARKER','w') for i in (1,)))",
    "sum(open('MARKER','w') for i in (1,))",
    "max((open('MARKER','w'),1)[1], 2)",
    'f\'{open("MARKER","w")}\'',
    "(open('MARKER','w') and 1)",
    "1 if open('MARKER','w') else 2",
    "(x := open('MARKER','w'))",
    "a.b",
    "sqrt.__globals__",
    "'a'*10**9",
    "'%1000000000d'%1",
    "f'{1:>1000000000}'",
    "eval(1)",
    "exec(1)",
    "open(1)",
    "getattr(1, 2)",
    "globals()",
    "__builtins__",
    "compile(1)",
    "breakpoint()",
    "import('fs')",
    "createUnit('x')",
    "parse('1')",
    "cos.constructor('return 1')()",
    "a",
    "b",
    "api_key*2",
]


@pytest.mark.parametrize("sanitize", ["1", "0"])
def test_attacks_are_refused_and_leave_no_trace(tmp_path, monkeypatch, sanitize):
    """Whatever numexpr's own filter is set to, attacks that get round it are refused before it sees anything."""
    api_key = 12345  # numexpr would find the caller's variables
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMEXPR_SANITIZE", sanitize)

    refused = []
    for attack in ATTACKS:
        with pytest.raises(MathError):
            evaluate(attack)
        refused.append(attack)

    assert refused == ATTACKS
    assert list(tmp_path.iterdir()) == []
    assert api_key


def test_numexpr_is_called_with_constant_templates_and_floats_only(monkeypatch):
    """Nothing a user writes reaches numexpr: not text, not a whole number, not a variable of ours."""
    calls = []
    evaluate_for_real = engine.load()

    def recorded(*args, **kwargs):
        calls.append((args, kwargs))
        return evaluate_for_real(*args, **kwargs)

    monkeypatch.setattr(engine, "load", lambda: recorded)
    for name, function in FUNCTIONS.items():
        arguments = ["0" if name == "atanh" else "1"] * function.fewest
        evaluate(f"1 + 2 * {name}({', '.join(arguments)}) - 3^2 / 4 + 9007199254740993 + 5%")

    assert len(calls) > 5 * len(FUNCTIONS)
    for (template, *more), keywords in calls:
        variables = keywords.pop("local_dict")
        assert template in engine.TEMPLATES.values()
        assert not more
        assert keywords == {"global_dict": {}, "sanitize": True}
        assert sorted(variables) == ["a", "b"]
        assert {type(value) for value in variables.values()} == {float}


def test_the_source_has_no_interpreter():
    """No module of the package calls eval, exec, compile or __import__, and only engine.py imports numexpr."""
    offences = []
    for path in Path(flexchat_builtin.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in ("eval", "exec", "compile", "__import__", "globals"):
                offences.append((path.name, node.id))
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            offences += [
                (path.name, module)
                for module in modules
                if module.split(".")[0] in ("numexpr", "pickle", "subprocess", "importlib", "ast")
                and (path.name, module) != ("engine.py", "numexpr")
            ]

    assert offences == []


def test_numexpr_comes_with_the_first_evaluation_and_says_nothing():
    """Loading the plugin imports nothing heavy; the first evaluation starts no threads and logs nothing."""
    program = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
import flexchat_builtin.plugin as plugin
list(plugin.flexchat_register_tools()); list(plugin.flexchat_register_tool_handlers())
heavy = ("numexpr", "numpy", "re2", "httpx", "aiohttp", "jsonschema", "cattrs")
print([name for name in heavy if name in sys.modules])
from flexchat_builtin.arithmetic import evaluate
print(evaluate("6 * 7"))
import numexpr
print(numexpr.get_num_threads(), logging.getLogger("numexpr.utils").disabled)
"""

    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMEXPR", "OMP", "COVERAGE"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "42", "1 False"]


def test_a_program_that_uses_numexpr_itself_keeps_its_threads():
    """Where numexpr is already loaded, its number of threads is not touched."""
    program = """
import numexpr
numexpr.set_num_threads(2)
from flexchat_builtin.arithmetic import evaluate
print(evaluate("6 * 7"), numexpr.get_num_threads())
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("42 2\n", "")
