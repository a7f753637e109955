"""ask --functions CODE|FILE."""

import pytest
from flexchat_cli.answering import tools_in
from flexchat_cli.context import UsageError

CODE = '''
import math
from typing import Annotated

def multiply(x: int, y: int) -> int:
    """Multiply two numbers."""
    return _times(x, y)

def half(x: float):
    return x / 2

def _times(x, y):
    return x * y
'''


def test_each_function_without_a_leading_underscore_is_a_tool():
    first, second = tools_in([CODE])

    assert (first.name, first.description) == ("multiply", "Multiply two numbers.")
    assert (second.name, second.description, [*second.parameters["properties"]]) == ("half", "half", ["x"])


def test_they_are_offered_and_run_with_and_without_a_configuration(run, script, tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    call = '{ tool_calls = [{ name = "multiply", arguments = { x = 6, y = 7 } }] }'
    script(call, '{ text = "done" }')

    assert "42" in run("ask", "--functions", "mine.py", "x").err
    assert "42" in run("ask", "-m", "rehearsal/x", "--functions", CODE, "multiply 6 and 7").out


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def x(:", "this is not Python"),
        ("1 / 0", "it cannot be run: ZeroDivisionError"),
        ("x = 1", "it defines no function"),
        ("none.py", "--functions none.py: there is no such file"),
        ("def f(*all): pass", "name each parameter"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(code, said):
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        tools_in([code])


def test_a_second_tool_of_a_name_is_refused(run, script):
    script('{ text = "done" }')

    ran = run("ask", "-T", "calculator", "--functions", "def calculator(): pass", "x")

    assert ran.status == 2
    assert "there is another tool called 'calculator'" in ran.err
