"""{{variables}}: what is written is kept, what is filled in is not read again, and no text takes long."""

import datetime
import time

import pytest
from flexchat.domain import Document, Profile
from flexchat.errors import UnknownNameError
from flexchat.turn.template import substitute_variables
from hypothesis import given
from hypothesis import strategies as st

PIECES = st.sampled_from(["{", "}", "{{", "}}", "{{topic}}", "{{ user_message }}", "{{intent}}", " ", "a", ".", "\n"])


@given(st.text().filter(lambda text: "{{" not in text))
def test_a_text_without_variables_stays_as_it_is(text):
    """Whatever else it holds."""
    assert substitute_variables(text, Profile(topic="t")) == text


@given(st.lists(PIECES).map("".join), st.lists(PIECES).map("".join))
def test_what_a_user_wrote_is_never_expanded(said, later):
    """A message that looks like a template comes out as it went in (RG-2, C21)."""
    template = "<{{user_message}}>" + later.replace("{{topic}}", "")
    try:
        filled = substitute_variables(template, Profile(topic="SECRET", user_message=said))
    except UnknownNameError:  # for a variable of the template's own, whatever the message is
        with pytest.raises(UnknownNameError):
            substitute_variables(template, Profile(topic="SECRET", user_message=""))
    else:
        assert filled.startswith(f"<{said}>")


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{documents.0.title}}", "A"),
        ("{{ documents.1.text }}", "two"),
        ("<{{documents.2.text}}>", "<>"),
        ("<{{documents.²}}>", "<>"),
        ("<{{documents." + "1" * 5000 + "}}>", "<>"),
        ("{{documents.0.metadata}}", '{"read": "2024-02-29"}'),
        ("{{intent}}{{reasoning}}", ""),
        ("{{{topic}}}", "{t}"),
        ("{{topic", "{{topic"),
    ],
)
def test_paths_go_into_lists_and_mappings(template, filled):
    """Documents that were not found are empty; no index and no value raises (RG-2, C21)."""
    documents = (
        Document(text="one", title="A", metadata={"read": datetime.date(2024, 2, 29)}),
        Document(text="two"),
    )

    assert substitute_variables(template, Profile(topic="t", documents=documents)) == filled


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("In {{language}}.", "{{language}}, which has no value: give it with the message"),
        ("{{a}} {{ b }} {{a}}", "{{a}}, {{b}}, which has no value"),
        ("{{user_mesage}}", "(did you mean 'user_message'?)"),
        ("{{topic.upper}}", "{{topic.upper}}, which has no value"),
        ("{{person.name}}", "{{person.name}}, which has no value"),
        ("{{names.1}}", "{{names.1}}, which has no value"),
    ],
)
def test_a_variable_without_a_value_is_an_error_that_names_it(template, named):
    """No model is sent a placeholder (C21)."""
    with pytest.raises(UnknownNameError) as caught:
        substitute_variables(template, Profile(topic="t"), {"person": {"age": 3}, "names": ["Ada"]})

    assert named in str(caught.value)


@pytest.mark.timed
@pytest.mark.parametrize("piece", ["{{", "{{ ", "{{a", "{{a ", "{{a.", "}}{{", "{ {", "\n{{\t"])
def test_hostile_templates_take_linear_time(piece):
    """Ten times the text may take about ten times as long; a quadratic search would take a hundred times."""

    def seconds(times: int) -> float:
        text, best = piece * times, 9.0
        for _ in range(3):
            started = time.thread_time()
            substitute_variables(text, Profile(topic="t"))
            best = min(best, time.thread_time() - started)
        return best

    assert seconds(100_000) < 40 * seconds(10_000) + 0.05
