"""How laws are named, switched off and protected."""

import unittest

import pytest
from flexchat_sdk import ProviderProtocolError
from flexchat_testing import NetworkForbiddenError
from flexchat_testing.laws.law import DISAGREE, Conformance, canonical, law, laws_of, require


class Kit(Conformance):
    capabilities = {"feet": "it can walk", "wings": "it can fly"}  # noqa: RUF012
    supports = frozenset({"feet"})
    seen: list

    @law()
    def test_it_lives(self):
        """It breathes."""
        require(True, "it does not breathe")

    @law("wings")
    async def test_it_flies(self):
        """It flies."""
        raise AssertionError("it cannot")


def test_a_law_whose_capability_is_missing_is_skipped_with_the_word():
    with pytest.raises(unittest.SkipTest, match=r'supports lacks "wings" \(it can fly\)'):
        Kit().test_it_flies()


def test_a_law_that_is_a_coroutine_is_run_and_carries_its_statement():
    """The failure ends with what the law says."""

    class Bird(Kit):
        supports = frozenset({"feet", "wings"})

    with pytest.raises(AssertionError, match="it cannot") as caught:
        Bird().test_it_flies()
    assert caught.value.__notes__ == ["the law: It flies."]


def test_an_answer_the_provider_refuses_is_told_as_a_disagreement():
    """Most often conformance.py still speaks another format than the provider."""

    class Refusing(Kit):
        @law()
        def test_it_reads(self):
            """It reads."""
            raise ProviderProtocolError("cannot be read", provider="p")

    with pytest.raises(ProviderProtocolError) as caught:
        Refusing().test_it_reads()
    assert caught.value.__notes__ == [DISAGREE, "the law: It reads."]


def test_an_unknown_capability_is_refused_with_the_nearest():
    """A typo would skip laws silently."""
    with pytest.raises(TypeError, match=r"'wing', which is not a capability \(did you mean 'wings'\?\)"):
        type("Bird", (Kit,), {"supports": frozenset({"wing"})})


def test_a_law_that_is_written_anew_is_told():
    """Neither a method of the same name, nor None, nor another law takes a law's place."""
    for other in (lambda self: None, None, law()(lambda self: None)):
        wrong = type("Wrong", (Kit,), {"test_it_lives": other})
        with pytest.raises(AssertionError, match="Wrong replaces the law test_it_lives"):
            wrong().test_no_law_is_replaced()


def test_a_law_may_be_known_to_be_broken():
    """With a reason, and only with one."""

    class Known(Kit):
        @pytest.mark.xfail(reason="it has a cold")
        def test_it_lives(self):
            super().test_it_lives()

    class Lazy(Kit):
        @pytest.mark.xfail
        def test_it_lives(self):
            super().test_it_lives()

    Known().test_no_law_is_replaced()
    with pytest.raises(AssertionError):
        Lazy().test_no_law_is_replaced()


def test_a_law_reaches_no_network():
    """Whatever a plugin tries while it is judged."""
    import socket

    class Caller(Kit):
        @law()
        def test_it_stays_at_home(self):
            """It calls nobody."""
            socket.create_connection(("203.0.113.1", 80), timeout=0.1)

    with pytest.raises(NetworkForbiddenError, match=r"203\.0\.113\.1"):
        Caller().test_it_stays_at_home()


def test_drawn_values_that_break_a_law_are_told_in_their_smallest_form():
    """hypothesis finds and shrinks them, the same ones each time."""
    from hypothesis import strategies as st

    class Counting(Kit):
        @law(draw=lambda: {"number": st.integers(0, 1000)})
        async def test_it_counts(self, number):
            """It counts to ten."""
            require(number <= 10, f"it cannot count to {number}")

    with pytest.raises(AssertionError, match="it cannot count to 11"):
        Counting().test_it_counts()


def test_laws_are_listed_in_the_order_they_are_written():
    assert [name for name, _ in laws_of(Kit)] == ["test_no_law_is_replaced", "test_it_lives", "test_it_flies"]


def test_json_data_is_compared_exactly():
    """true is not 1, and 1 is not 1.0."""
    assert len({canonical(value) for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
