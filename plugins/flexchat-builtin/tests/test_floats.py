"""Arithmetic on numbers is what numexpr makes of them, bit by bit."""

import math

import pytest
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.engine import TEMPLATES, compute_list
from flexchat_builtin.functions import compute
from flexchat_builtin.parameters import MathError
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

PAIRS = {"+", "-", "*", "/", "^", "atan2"}
OF_NUMBERS = sorted(TEMPLATES.keys() - {"sum", "prod"})
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 1 / 3, 1e308, 5e-324, 710.0, -746.0, math.inf, -math.inf, math.nan]
FLOATS = st.floats() | st.sampled_from(EDGES) | st.integers(-20, 20).map(float) | st.floats(-10, 10)


def is_same(a, b):
    """Whether two floats are the same, the sign of zero included."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_the_edges_of_every_operation_are_those_of_numexpr(name):
    """Zeros, poles, infinities, what overflows, and NaN."""
    for a in EDGES:
        for b in EDGES if name in PAIRS else (0.0,):
            operands = (a, b) if name in PAIRS else (a,)
            (expected,) = compute_list(name, [a], *operands[1:])

            assert is_same(compute(name, *operands), expected), (name, operands)


@settings(max_examples=examples(1_000), deadline=None)
@given(st.sampled_from(OF_NUMBERS), FLOATS, FLOATS)
def test_any_two_numbers_give_what_numexpr_gives(name, a, b):
    operands = (a, b) if name in PAIRS else (a,)
    (expected,) = compute_list(name, [a], *operands[1:])

    # C's library and numexpr's may differ in the last bit of a sine; no more.
    got = compute(name, *operands)
    assert is_same(got, expected) or abs(got - expected) <= math.ulp(expected)


ATOMS = (
    st.integers(0, 99).map(str) | st.floats(0, 1e6, allow_nan=False).map(repr) | st.sampled_from(["pi", "1e308", "0"])
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, st.sampled_from([" + ", " - ", " / ", " ^ ", " mod "]), inner).map(
            "({0[0]}{0[1]}{0[2]})".format
        )
        | st.tuples(st.sampled_from(["sqrt", "exp", "log", "tan", "round", "abs", "-", "cbrt"]), inner).map(
            "{0[0]}({0[1]})".format
        )
    ),
    max_leaves=6,
)


def worth(expression):
    try:
        return evaluate(expression)
    except MathError as error:
        return str(error)


@settings(max_examples=examples(300), deadline=None)
@given(EXPRESSIONS)
def test_a_list_of_one_number_is_worth_what_the_number_is(expression):
    """The same value or the same error on both ways: numbers by Python, lists by numexpr."""
    alone, listed = worth(expression), worth(_listed(expression))

    if isinstance(alone, str):
        assert listed == alone
    else:
        assert listed == pytest.approx([alone], rel=1e-12)


def _listed(expression):
    """The expression with a list in place of its first number."""
    start = next(i for i, c in enumerate(expression) if c.isdigit() or expression[i : i + 2] == "pi")
    end = start + 2 if expression[start] == "p" else start
    while end < len(expression) and (
        expression[end] in "0123456789.e" or expression[end - 1 : end + 1] in ("e+", "e-")
    ):
        end += 1
    return f"{expression[:start]}[{expression[start:end]}]{expression[end:]}"
