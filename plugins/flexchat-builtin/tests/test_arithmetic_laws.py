"""Laws of the calculator that hold for any input."""

import importlib.util
import math
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.functions import CONSTANTS, FUNCTIONS
from flexchat_builtin.parameters import MathError
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

pytestmark = pytest.mark.slow

numbers = st.one_of(
    st.integers(0, 2**70).map(str),
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(sorted(CONSTANTS)),
)
operators = st.sampled_from(["", "of", "% of", "mod", "and", "or", "xor", *"+-*/^%<>", "**", "==", "!=", "<=", ">="])


def compounds(inner):
    """Return expressions made of inner ones by every rule of the grammar."""
    return st.one_of(
        st.tuples(inner, operators, inner).map(" ".join),
        st.tuples(st.sampled_from(["-", "+", "not "]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["!", "%"])).map("".join),
        inner.map("({})".format),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, max_size=4)).map(
            lambda call: f"{call[0]}({', '.join(call[1])})"
        ),
        st.tuples(inner, inner, inner).map("{0[0]} ? {0[1]} : {0[2]}".format),
    )


expressions = st.recursive(numbers, compounds, max_leaves=12)
noise = st.text(st.sampled_from("0123456789.+-*/%^()<>=!?:, eEpi_mod") | st.characters(), max_size=60)


@pytest.mark.timed
@settings(max_examples=examples(1_000), deadline=None)
@given(st.one_of(expressions, noise))
def test_any_text_gives_a_finite_number_or_the_calculators_own_error_at_once(text):
    """No input raises anything but MathError, returns NaN or infinity, or takes a second: the first loads numexpr."""
    started = time.thread_time()
    try:
        value = evaluate(text)
    except MathError:
        value = 0

    assert type(value) in (int, float, bool)
    assert math.isfinite(value)
    assert time.thread_time() - started < 1


@st.composite
def whole_number_expressions(draw, depth=3):
    """Return an expression of whole numbers, its exact value, and the largest number on the way."""
    if depth == 0 or draw(st.booleans()):
        value = draw(st.integers(0, 2**20) | st.sampled_from([2**31, 2**32, 2**52, 2**53]))
        return str(value), value, value
    left, a, most_a = draw(whole_number_expressions(depth - 1))
    right, b, most_b = draw(whole_number_expressions(depth - 1))
    operator = draw(st.sampled_from(["+", "-", "*", "mod"]))
    if operator == "mod" and (b == 0 or max(most_a, most_b) > 2**53):  # a remainder magnifies what was rounded
        operator = "+"
    value = {"+": a + b, "-": a - b, "*": a * b, "mod": a % b if b else 0}[operator]
    return f"({left} {operator} {right})", value, max(abs(value), most_a, most_b)


@settings(max_examples=examples(500), deadline=None)
@given(whole_number_expressions())
def test_whole_numbers_are_exact_up_to_2_53_and_never_wrap(made):
    """Below 2^53 the result is the exact one; above, it has the exact one's size: no integer wraps silently."""
    text, exact, largest = made

    got = Fraction(evaluate(text))

    assert got == exact if largest <= 2**53 else abs(got - exact) <= largest // 2**40


@pytest.mark.timed
def test_twenty_thousand_fuzzed_inputs_meet_the_targets():
    """The benchmark's generator, a fiftieth of its length: nothing unhandled, nothing wrong, nothing slow."""
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "fuzz_arithmetic.py"
    if not path.exists():
        pytest.skip("benchmarks/ is not here: the package is tested outside the project")
    spec = importlib.util.spec_from_file_location("fuzz_arithmetic", path)
    fuzzer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzzer)

    evaluate("sum([1, 2])")  # the first list loads numexpr, which takes 0.4 s alone

    report = fuzzer.fuzz(count=20_000, seed=2)

    assert (report.unhandled, report.wrong) == (0, 0)
    assert report.valid > 5_000
    assert report.times_s[-1] < 1, report.slowest[:80]


def test_eight_threads_get_their_own_results():
    """Evaluations side by side do not disturb each other."""
    wrong = []

    def work(number):
        for i in range(300):
            expected = (number * 1000 + i) ** 2 + math.sqrt(i)
            if evaluate(f"{number * 1000 + i}^2 + sqrt({i})") != expected:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_nearly_full_stack_gives_a_refusal():
    """Where the caller is itself deep in a recursion, a deep expression is refused, not a crash."""
    deep = "(" * 48 + "1" + ")" * 48

    def descend(levels):
        if levels:
            return descend(levels - 1)
        return evaluate(deep)

    def nearly_full():
        for levels in range(500, 1_000, 20):
            try:
                descend(levels)
            except MathError as error:
                return str(error)
            except RecursionError:
                return "the test's own recursion was too deep"
        return "never"

    assert nearly_full() == "Math evaluation failed: the expression is nested too deeply"
