"""The calculator's lists, as mathjs has them."""

import math
import time

import pytest
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.parameters import MathError
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

VALUES = [
    ("[1, 2, 3]", [1, 2, 3]),
    ("[ -1, 2.5,\t1e3, pi, 1 + 1, sum([1, 2]), 50%]", [-1, 2.5, 1000, math.pi, 2, 3, 0.5]),
    ("[1, 2, 3] * 2", [2, 4, 6]),
    ("2 * [1, 2]", [2, 4]),
    ("[1, 2](3)", [3, 6]),
    ("[1, 2] + [3, 4]", [4, 6]),
    ("[1, 2] - 1", [0, 1]),
    ("-[1, -2]", [-1, 2]),
    ("[1, 2] / [2, 4]", [0.5, 0.5]),
    ("1 / [1, 2]", [1, 0.5]),
    ("[1, 2, 3]^2", [1, 4, 9]),
    ("2^[1, 2]", [2, 4]),
    ("[1, 2] .* [3, 4]", [3, 8]),
    ("[1,2]./[2,2]", [0.5, 1]),
    ("[2, 3] .^ [2, 3]", [4, 27]),
    ("2 .* 3", 6),
    ("7 mod [2, 4]", [1, 3]),
    ("[100, 200] + 10%", [110, 220]),
    ("10% of [10, 20]", [1, 2]),
    ("sqrt([1, 4, 9])", [1, 2, 3]),
    ("abs([-1, 2]) + [1, 1]", [2, 3]),
    ("round([1.255, 2.5], 2)", [1.26, 2.5]),
    ("floor([1.5, -1.5])", [1, -2]),
    ("log([1, 100], 10)", [0, 2]),
    ("log([1, e])", [0, 1]),
    ("pow([2, 3], 2)", [4, 9]),
    ("cube([1, 2])", [1, 8]),
    ("true ? [1] : 2", [1]),
    ("sum([1, 2, 3])", 6),
    ("prod([2, 3, 4])", 24),
    ("mean([1, 2, 6])", 3),
    ("median([4, 1, 2, 3])", 2.5),
    ("mode([1, 2, 2])", 2),
    ("std([2, 4, 6])", 2),
    ("std([5])", 0),
    ("variance([2, 4, 6])", 4),
    ("min([3, -1, 2])", -1),
    ("max([3, -1, 2])", 3),
    ("gcd([12, 18])", 6),
    ("lcm([4, 6])", 12),
    ("hypot([3, 4])", 5),
    ("dot([1, 2, 3], [4, 5, 6])", 32),
    ("(max([3, 4]) - mean([1, 2, 3])) / std([2, 4, 6])", 1),
]

REFUSALS = [
    ("[]", "a list needs at least one number"),
    ("[1, 2", "an opening bracket is never closed"),
    ("[1,]", "unexpected ']' at character 4"),
    ("1]", "unexpected ']' at character 2"),
    ("[1 2]", "an operator is missing between 1 and 2"),
    ("[1, 2] + [1, 2, 3]", "the lists have 2 and 3 numbers: + needs lists of equal length"),
    ("dot([1], [1, 2])", "dot needs lists of equal length"),
    ("dot(1, 2)", "dot takes two lists"),
    ("dot([1], 2)", "dot takes two lists"),
    ("[1, 2] * [3, 4]", "write a .* b for a list, dot(a, b) for a number"),
    ("max([1, 2], 3)", "max takes numbers or one list, not both"),
    ("max([1], [2])", "max takes numbers or one list, not both"),
    ("gcd([4])", "gcd needs a list of at least 2 numbers"),
    ("pow([1])", "pow takes 2 arguments, got 1"),
    ("factorial([3])", "factorial takes numbers, not lists"),
    ("combinations([3], 2)", "combinations takes numbers, not lists"),
    ("[3]!", "! takes numbers, not lists"),
    ("[50]%", "% takes numbers, not lists"),
    ("[1] < 2", "< takes numbers, not lists"),
    ("not [1]", "not takes numbers, not lists"),
    ("[1] and 1", "and takes numbers, not lists"),
    ("[1] ? 2 : 3", "takes numbers, not lists"),
    ("[[1], 2]", "a list holds numbers, not lists"),
    ("[[1] + 1]", "a list holds numbers, not lists"),
    ("[1, 2][1]", "an index is not supported"),
    ("2[1]", "an index is not supported"),
    ("[1; 2]", "matrices are not supported"),
    ("[1:3]", "ranges are not supported"),
    ("sort([2, 1])", "not available"),
    ("[1, 0] / 0", "division by zero in 0 / 0"),
    ("1 / [1, 0]", "division by zero in 1 / 0"),
    ("sqrt([4, -4])", "sqrt(-4) is not a real number"),
    ("[1e308, 1] * 10", "the result of 1e+308 * 10 is too large"),
    ("sum([1e308, 1e308])", "too large"),
    ("[1, NaN]", "not a number"),
    ("[Infinity]", "infinite"),
    (f"[{'1,' * 1_000}1]", "a list has at most 1000 numbers"),
    (f"[{'1,' * 4_999}1]" + "+1", "10003 characters, 10000 are allowed with its lists"),
    (f"[{'1,' * 99}1]" + "+1" * 150, "compute more than 10000 numbers"),
    ("[1]" + "+1" * 501, "characters, 1000 are allowed"),
    ("[" * 60 + "1" + "]" * 60, "nested deeper than 50 levels"),
    ("[" + "(" * 60, "nested deeper than 50 levels"),
]


@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_a_list_has_its_value(expression, value):
    got = evaluate(expression)

    assert got == pytest.approx(value, rel=1e-14)
    for one, expected in zip(got, value, strict=True) if isinstance(value, list) else ((got, value),):
        assert type(one) is type(expected)


@pytest.mark.parametrize(("expression", "reason"), REFUSALS, ids=range(len(REFUSALS)))
def test_a_refusal_says_what_is_wrong(expression, reason):
    with pytest.raises(MathError) as caught:
        evaluate(expression)

    assert reason in f"{caught.value} ({caught.value.hint})"
    assert len(str(caught.value)) < 250


def test_a_long_list_of_numbers_fits():
    """A thousand of them, negative ones too: they are not operations."""
    numbers = [(-1) ** i * i / 8 for i in range(1_000)]

    assert evaluate(f"sum([{','.join(map(str, numbers))}])") == sum(numbers)


NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-99, 99), min_size=2, max_size=30)


@settings(max_examples=examples(300), deadline=None)
@given(NUMBERS, st.sampled_from(["sum", "prod", "mean", "median", "std", "variance", "min", "max", "hypot"]))
def test_a_function_of_a_list_is_that_of_its_numbers(numbers, name):
    """sum([1, 2]) is sum(1, 2), up to the last digits."""
    written = ", ".join(map(repr, numbers))
    values = []
    for arguments in (written, f"[{written}]"):
        try:
            values.append(evaluate(f"{name}({arguments})"))
        except MathError as error:
            values.append(str(error))
    if isinstance(values[0], str):
        assert values[0] == values[1]
    else:
        assert values[1] == pytest.approx(values[0], rel=1e-9, abs=1e-9)


@settings(max_examples=examples(200), deadline=None)
@given(NUMBERS, st.sampled_from("+-/^"), st.sampled_from(["2", "0.5", "-3", "7.25"]))
def test_an_operation_on_a_list_is_that_on_each_number(numbers, operator, other):
    """The first number without a result gives the error of the whole."""
    each = []
    try:
        for number in numbers:
            each.append(evaluate(f"({number!r}) {operator} {other}"))
        alone = each
    except MathError as error:
        alone = str(error)
    try:
        listed = evaluate(f"[{', '.join(map(repr, numbers))}] {operator} {other}")
    except MathError as error:
        listed = str(error)

    assert listed == alone


NOISE = st.text(st.sampled_from("0123456789.+-*/%^()[]<>=!?:, eEpisumdot"), max_size=80)
PIECES = st.lists(
    st.sampled_from(
        ["[1, 2]", "[", "]", "[1]", ",", " + ", " .* ", "sum(", "dot(", ")", "3", "-", "^", "std([1, 5])", "!", "%"]
    ),
    max_size=14,
).map("".join)


@pytest.mark.timed
@settings(max_examples=examples(1_000), deadline=None)
@given(NOISE | PIECES)
def test_any_text_gives_finite_numbers_or_the_calculators_own_error_at_once(text):
    started = time.thread_time()
    try:
        value = evaluate(text)
    except MathError:
        value = 0

    values = value if isinstance(value, list) else [value]
    assert all(type(each) in (int, float, bool) and math.isfinite(each) for each in values)
    assert time.thread_time() - started < 0.25


@pytest.mark.timed
@pytest.mark.parametrize(
    "expression",
    [
        "+".join([f"round([{','.join(['1.005'] * 100)}], 2)"] * 90),
        f"sum([{','.join(['1e308'] * 1_000)}])",
        f"lcm([{','.join(str(2**53 - 1 - 2 * i) for i in range(500))}])",
        f"gcd([{','.join(str(2**53 - 1 - 2 * i) for i in range(500))}])",
        f"mode([{','.join(map(str, range(1_000)))}])",
        "[" * 9_000,
        "[1," * 3_000,
        "[" + "-" * 9_000,
        "[" + "1 " * 4_900 + "]",
        "std(" * 49 + "[1, 2]" + ")" * 49,
    ],
)
def test_large_and_hostile_lists_are_done_at_once(expression):
    started = time.thread_time()
    try:
        evaluate(expression)
    except MathError:
        pass

    assert time.thread_time() - started < 0.5
