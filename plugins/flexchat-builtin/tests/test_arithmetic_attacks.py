"""No expression runs code, and none reaches numexpr (TC-117, DS-11)."""

import ast
from pathlib import Path

import flexchat_builtin
import pytest
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.parameters import MathError

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
    "[api_key]",
    "[1, 2].__class__",
    "[open('MARKER','w')]",
    "[1][__import__('os')]",
    "sum([x for x in [1]])",
    "[1, *[2]]",
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
