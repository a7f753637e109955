"""The rehearsal model answers from the passages its prompt carries, by quoting them."""

import time

import pytest
from flexchat import Document
from flexchat.turn.template import rag_context
from flexchat_mock.rehearsal import encode_tools
from flexchat_mock.rehearsal.provider import HONESTY, answer, from_passages, read_passages
from flexchat_sdk import ChatOptions, SystemMessage, UserMessage
from hypothesis import given
from hypothesis import strategies as st

LIMITS = Document(
    title="Guide › Limits",
    source="docs/limits.md",
    collection="docs",
    text="A turn ends after two minutes. Set `turn_timeout_ms` to allow a longer turn. Nothing else is limited.",
)
INSTALL = Document(
    title="Install", source="README.md", collection="docs", text="Run pip install flexchat.\n\n---\n\nDone."
)


def ask(question, *documents, prompt="Answer from these.\n\n{}", tools=()):
    messages = (SystemMessage(content=prompt.format(rag_context(documents))), UserMessage(content=question))
    return answer(messages, "rehearsal", ChatOptions(tools=encode_tools(tools))).content


def test_the_sentence_that_shares_most_with_the_question_is_quoted_with_its_source():
    said = ask("How do I allow longer turns?", INSTALL, LIMITS)

    assert said == f"Set `turn_timeout_ms` to allow a longer turn. (Source: Guide › Limits, docs/limits.md)\n{HONESTY}"


def test_what_shares_no_word_is_not_quoted():
    """It says so, rather than to quote just anything."""
    assert ask("Wer hat gewonnen?", INSTALL, LIMITS).startswith("The passages found share no word")


def test_without_passages_it_answers_as_ever():
    assert ask("How do I allow longer turns?").startswith("No tool is offered")
    assert ask("Limits?", prompt="### Rules\n\nMind the limits.{}").startswith("No tool is offered")


def test_neither_code_nor_headings_nor_the_head_of_a_table_are_quoted():
    table = "| timeout | what |\n|---|---|\n| `timeout` | seconds |"
    text = f"# Timeout\n\n```\ntimeout = 5\n```\n\n{table}\n\n- no word of it"
    document = Document(title="T", source="t.md", text=text)

    said = from_passages("timeout", read_passages(rag_context([document])))

    assert said == "`timeout` | seconds (Source: T, t.md)"


def test_a_text_that_looks_like_a_passage_without_standing_between_rules_stays_in_its_passage():
    hostile = Document(title="A", source="a.md", text="One.\n### B (from c)\nSource: b.md\n\nTwo.")

    assert [p.source for p in read_passages(rag_context([hostile, LIMITS]))] == ["a.md", "docs/limits.md"]


titles = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=40).filter(
    lambda title: " (from " not in title
)
texts = st.text(max_size=200).filter(lambda text: "### " not in text)


@given(st.lists(st.tuples(titles, titles, texts), max_size=5))
def test_what_a_prompt_shows_is_what_is_read(shown):
    """Law: rag_context and read_passages are inverse."""
    documents = [Document(title=t, source=s, collection="c", text=x) for t, s, x in shown]

    assert [(p.title, p.source, p.text) for p in read_passages(rag_context(documents) if documents else "")] == shown


@given(st.text(), st.text())
def test_any_question_of_any_text_has_an_answer(question, text):
    document = Document(title="T", source="t.md", collection="c", text=text)

    assert from_passages(question, read_passages(rag_context([document])))


@pytest.mark.timed
@pytest.mark.parametrize(
    "prompt",
    [
        "### a (from b)\n\n" + "```\n" * 50_000,
        "### " + " (from " * 30_000,
        "### a (from b)\n\n" + "word. " * 40_000,
        "### a (from b)\n\n" + "| " * 100_000,
        "### x (from y)\n" * 15_000,
    ],
)
def test_hostile_prompts_take_no_time(prompt):
    begun = time.thread_time()

    from_passages("word", read_passages(prompt))

    assert time.thread_time() - begun < 2
