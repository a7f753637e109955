"""OpenAI's clients send a request again without a key: which request it repeats."""

import time

from flexchat_web.api.openai_repeats import Repeats

ASKED = {"model": "flexchat", "messages": [{"role": "user", "content": "Pay 5"}]}


def test_a_first_request_is_always_a_new_one():
    repeats = Repeats()
    assert len({repeats.key_of("t", ASKED, 0) for _ in range(3)}) == 3


def test_a_repeated_request_has_the_key_of_the_last_one(monkeypatch):
    repeats = Repeats()
    repeats.key_of("t", ASKED, 0)
    key = repeats.key_of("t", ASKED, 0)
    assert [repeats.key_of("t", ASKED, n) for n in (1, 2)] == [key, key]
    assert repeats.key_of("u", ASKED, 1) != key
    assert repeats.key_of("t", {**ASKED, "seed": 1}, 1) != key
    later = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert repeats.key_of("t", ASKED, 1) != key
