"""Which tools a search finds. How well it does so for real documents: benchmarks/tool_search.py."""

import pytest
from flexchat.domain import Implementation, ToolDefinition
from flexchat_toolsearch.ranking import ToolIndex
from flexchat_toolsearch.words import stems, words
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


def tool(name, description, *arguments):
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in arguments}}
    return ToolDefinition(
        name=name, description=description, parameters=schema, implementation=Implementation(type="mock")
    )


TOOLS = [
    tool("createRefund", "Refund a charge, in whole or in part.", "charge_id"),
    tool("listOpenOrders", "All orders that were not shipped yet."),
    tool("deleteCustomer", "Remove a person and all their data.", "customer_id"),
    tool("getSubaccounts", "Balances below the main one."),
    tool("ping", "Is the service up?"),
    tool("send_mail", "Send a message.", "recipient", "body"),
]
INDEX = ToolIndex({each.name: each for each in TOOLS})


def first(query):
    return INDEX.find(query, 5)[0].name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("give this customer his money back with a refund", "createRefund"),
        ("which order is open", "listOpenOrders"),
        ("erase a client", "deleteCustomer"),  # words that stand for each other
        ("sub accounts", "getSubaccounts"),
        ("subaccounting", "getSubaccounts"),
        ("email with a recipient", "send_mail"),
        ("PING", "ping"),
        ("call `deleteCustomer`, please", "deleteCustomer"),
        ("getsubaccounts?", "getSubaccounts"),
    ],
)
def test_the_first_hit(query, name):
    assert first(query) == name


@pytest.mark.parametrize("query", ["", " ", "?!", "xylophone", "日本語"])
def test_nothing_fits(query):
    assert INDEX.find(query, 5) == []


def test_no_tools():
    assert ToolIndex({}).find("refund", 5) == []


@given(st.text())
@settings(max_examples=examples(300))
def test_words_are_those_of_the_text(text):
    assert all(word in text.lower() or not word.isascii() for word in words(text))
    assert len(stems(text)) == len([*words(text)])


@given(st.text(max_size=200), st.integers(1, 6))
@settings(max_examples=examples(300))
def test_any_query_is_answered_in_order_and_without_repetition(query, hits):
    found = INDEX.find(query, hits)
    names = [hit.name for hit in found]
    assert len(names) == len(set(names)) <= hits
    assert INDEX.find(query, 6)[:hits] == found


@given(st.sampled_from(TOOLS), st.text(alphabet="abc xyz,;", max_size=30))
@settings(max_examples=examples(200))
def test_an_exact_name_is_always_found(each, more):
    assert first(f"{more} {each.name}") == each.name
    assert first(each.name.upper()) == each.name
