"""What comes of every fault, in every dialect, streamed and not: the exact answer or the right error, in time.

docs/reliability.md shows the outcomes; run this file to write its table anew, with PYTHONPATH=tests/servers.
"""

import asyncio
import time
from pathlib import Path

import attrs
import fault_server as server
import pytest
import wire_dialects as wire
from flexchat import AnswerEnd, ChatOptions, ProviderError, TextDelta, UserMessage
from stream_of import answer_of, stream_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->\n", "<!-- faults: end -->\n"
MESSAGES = (UserMessage(content="Say hello."),)
SLACK_S = 10


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of one request.

    Attributes:
        word: "answer", the class of the error without Provider and Error, or what is wrong.
        in_time: Whether it came when its limit was reached, or before.
        requests: How many the server got.
    """

    word: str
    in_time: bool
    requests: int
    error: ProviderError | None = None


CASES = [
    (fault, dialect, streamed)
    for fault in server.FAULTS
    for dialect in wire.DIALECTS
    for streamed in (False, True)
    if (fault.streamed if streamed else fault.whole) and (dialect.says_when_it_ends or not fault.needs_end)
]


def times_of(fault, streamed: bool, patience: int) -> dict[str, float]:
    """Return the limits of a request. Of one that only a limit ends, the others are far away."""
    if not fault.waits:
        return server.PATIENT
    ends_last = not streamed or fault.name == "slow drip"
    return {
        "timeout_s": patience * 1.0 if ends_last else 120.0,
        "first_byte_timeout_s": patience * 0.6,
        "idle_timeout_s": patience * 0.6,
    }


async def outcome(fault, dialect, streamed: bool) -> Outcome:
    """Ask once; again, with more patience, where the limit passed before a busy server had the request."""
    for patience in (1, 4, 16):
        found = await outcome_of(fault, dialect, streamed, times_of(fault, streamed, patience))
        if found.requests >= fault.requests or not fault.waits:
            return found
    return found


async def outcome_of(fault, dialect, streamed: bool, times: dict[str, float]) -> Outcome:
    async with server.serving(fault, dialect, streamed) as (url, requests):
        llm = dialect.open(url, retries=fault.retries, **times)
        began, error = time.monotonic(), None
        try:
            word = judged(await asked(llm, streamed), "".join(fault.pieces))
        except ProviderError as raised:
            error, word = raised, type(raised).__name__.removeprefix("Provider").removesuffix("Error")
        except Exception as raised:
            word = f"foreign exception {type(raised).__name__}: {raised}"
        seconds = time.monotonic() - began
        await llm.provider.aclose()
        for _ in range(100 if fault.waits else 3000):  # a busy server reads a request after its client has left
            if len(requests) >= fault.requests:
                break
            await asyncio.sleep(0.01)
        limit = times["timeout_s"] if times["timeout_s"] < 60 else times["first_byte_timeout_s"]
        in_time = seconds < limit + SLACK_S
        return Outcome(word=word, in_time=in_time, requests=len(requests), error=error)


async def asked(llm, streamed: bool):
    if not streamed:
        return await answer_of(llm, MESSAGES, "m-1", ChatOptions())
    events = [event async for event in stream_of(llm, MESSAGES, "m-1", ChatOptions())]
    assert isinstance(events[-1], AnswerEnd)
    result = events[-1].result
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == (result.content or "")
    return result


def judged(result, text: str) -> str:
    if result.content == text and not result.tool_calls and result.finish_reason == "stop":
        return server.ANSWER
    return f"silent success {result.content!r:.60} {result.tool_calls} {result.finish_reason}"


async def all_outcomes() -> dict[tuple[str, str, bool], Outcome]:
    """Those that only wait run side by side, the others one after the other."""
    waiting = [case for case in CASES if case[0].waits]
    found = dict(zip(map(key, waiting), await asyncio.gather(*[outcome(*case) for case in waiting]), strict=True))
    for case in CASES:
        if not case[0].waits:
            found[key(case)] = await outcome(*case)
    return found


def key(case) -> tuple[str, str, bool]:
    fault, dialect, streamed = case
    return fault.name, dialect.name, streamed


@pytest.fixture(scope="session")
def outcomes() -> dict[tuple[str, str, bool], Outcome]:
    return asyncio.run(all_outcomes())


@pytest.mark.slow
def test_every_fault_ends_in_the_answer_or_the_right_error(outcomes):
    """In time, without the key, after as many requests as the retry contract allows; never a silent success."""
    wrong = []
    for case in CASES:
        fault, _, streamed = case
        found = outcomes[key(case)]
        is_right = (
            found.word == (fault.streamed if streamed else fault.whole)
            and found.in_time
            and found.requests == fault.requests
            and (found.error is None or wire.KEY not in str(found.error) + repr(found.error))
        )
        wrong += [] if is_right else [(key(case), found)]

    assert wrong == []


def test_a_day_is_not_waited_for(outcomes):
    """The value is in the error, for the caller to act on."""
    for dialect in wire.DIALECTS:
        error = outcomes["retry after a day", dialect.name, True].error
        assert error.retry_after_s == 99999
        assert "99999" in str(error)


def test_there_are_at_least_28_faults():
    """As many as the list we measure ourselves by."""
    assert len(server.FAULTS) >= 28


def table(outcomes) -> str:
    names = [dialect.name for dialect in wire.DIALECTS]
    lines = [f"| the server … | asked | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for fault in server.FAULTS:
        modes = {False: fault.whole, True: fault.streamed}
        cells = ["both" if all(modes.values()) else "streamed" if fault.streamed else "whole"]
        for name in names:
            words = [outcomes[fault.name, name, s].word for s in modes if (fault.name, name, s) in outcomes]
            cells.append(" / ".join(dict.fromkeys(words)) or "–")
        lines.append(f"| {fault.what[0].lower()}{fault.what[1:]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_shows_the_outcomes(outcomes):
    """docs/reliability.md says what happens."""
    page = PAGE.read_text()
    shown = page[page.index(BEGIN) + len(BEGIN) : page.index(END)]

    assert shown == table(outcomes), "run: PYTHONPATH=tests/servers python tests/integration/test_faults.py"


if __name__ == "__main__":
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + table(asyncio.run(all_outcomes())) + END + rest.split(END)[1])
