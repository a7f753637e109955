"""benchmarks/fuzz_types.py, a short run of it: a wrong type loses nothing silently and costs nothing needlessly."""

import fuzz_types as fuzzer
import pytest

FORMATS = pytest.mark.parametrize("form", fuzzer.FORMATS, ids=lambda form: form.name)


@pytest.mark.slow
@FORMATS
def test_no_wrong_type_in_our_own_answers_loses_text_or_calls(form):
    """Every other type in every place of the kits' answers, whole and streamed: read right, or an error of ours."""
    report = fuzzer.fuzz(form, form.own(), most=4)

    assert report.answers
    assert report.cases == []


@pytest.mark.slow
@FORMATS
def test_no_wrong_type_in_recorded_answers_loses_text_or_calls(form):
    """A few of them, and a few events of each stream; all of them are for the script."""
    answers = fuzzer.recorded(form)
    if not answers:
        pytest.skip(f"no recordings at {fuzzer.RECORDINGS}: set FLEXCHAT_SHARED to the folder that holds them")
    report = fuzzer.fuzz(form, sorted(answers, key=lambda answer: len(str(answer.values)))[3:40:12], most=3)

    assert report.answers
    assert report.cases == []


def test_the_fuzzer_notices_what_it_is_for():
    """A reader that skips, one that raises what is not ours, and one that refuses too much."""
    form = fuzzer.FORMATS[0]
    answer = fuzzer.Answer("a", [{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "id": "x"}])

    def kinds(reading):
        return {case.split()[0] for case in fuzzer.fuzz(fuzzer.attrs.evolve(form, reading=reading), [answer]).cases}

    def careless(body, streamed):
        events = form.reading(body.replace(b'"content": 7', b'"content": ""'), streamed)
        return events

    def strict(body, streamed):
        if b'"id": 7' in body:
            raise fuzzer.ProviderError("no id")
        return form.reading(body, streamed)

    def broken(body, streamed):
        if b'"content": 7' in body:
            raise KeyError("content")
        return form.reading(body, streamed)

    assert [kinds(reading) for reading in (careless, strict, broken)] == [{"lost"}, {"refused"}, {"foreign"}]
