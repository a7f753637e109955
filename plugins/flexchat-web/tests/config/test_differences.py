"""Differences of texts: a diff that patch can read, in time in proportion to the texts."""

import difflib

from flexchat_web.config.file import MAX_COMPARED, unified_diff
from hypothesis import given
from hypothesis import strategies as st

lines = st.lists(st.sampled_from(["a", "b", "c", "", "@@ -1"]), max_size=30)


def patched(before, diff):
    """Return what a unified diff makes of lines, each of its lines checked."""
    after, at = [], 0
    for line in diff[2:]:
        if line.startswith("@@ -"):
            first, _, length = line.split()[1][1:].partition(",")
            start = int(first) - (1 if length != "0" else 0)
            after += before[at:start]
            at = start
        elif line[0] == "+":
            after.append(line[1:])
        else:
            assert before[at] == line[1:]
            after += [line[1:]] if line[0] == " " else []
            at += 1
    return after + before[at:]


@given(lines, lines, st.integers(0, 5))
def test_a_diff_leads_from_one_text_to_the_other(before, after, common):
    """Whatever they are, and whatever both begin and end with."""
    around = [f"line {n}" for n in range(common)]
    before, after = around + before + around, around + after + around

    assert patched(before, unified_diff(before, after, "f")) == after
    assert bool(unified_diff(before, after, "f")) == (before != after)


def test_a_small_change_is_told_as_difflib_tells_it():
    """In a long text, too."""
    before = [f"line {n}" for n in range(5_000)]
    after = [*before[:2_000], "new", *before[2_001:]]

    assert unified_diff(before, after, "f") == [*difflib.unified_diff(before, after, "f", "f", lineterm="")]


def test_a_diff_of_long_texts_takes_time_in_proportion_to_them(cpu_growth):
    """Also of texts whose lines are all alike; it is right all the same."""
    before = ["abc"[n % 3] for n in range(3 * MAX_COMPARED)]
    after = ["cab"[n * n % 3] for n in range(2 * MAX_COMPARED)]

    assert patched(before, unified_diff(before, after, "f")) == after
    assert cpu_growth(lambda n: unified_diff(before * n, after * n, "f"), 10, 40) < 9
