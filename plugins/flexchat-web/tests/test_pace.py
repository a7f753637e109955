"""Long answers let other requests have their turn, and are the same as if made at once."""

import asyncio
import json

from flexchat_web.sending import AT_ONCE, MAX_CHARACTERS, encoded, encoded_in_pieces, paced
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
)


@given(
    st.dictionaries(
        st.text(max_size=5), VALUES | st.integers(0, 3 * AT_ONCE).map(lambda n: [{"i": i} for i in range(n)])
    )
)
def test_pieces_come_to_the_same_bytes(data):
    assert asyncio.run(encoded_in_pieces({"inner": data})) == encoded({"inner": data})


@given(st.text(min_size=1, max_size=9), st.integers(0, 40))
def test_a_long_text_comes_to_the_same_bytes(text, rest):
    """Wherever it is cut: characters beyond the BMP, quotes and backslashes stay whole."""
    data = {"text": text * (MAX_CHARACTERS // len(text) + rest)}
    assert asyncio.run(encoded_in_pieces(data)) == encoded(data)


async def test_others_have_their_turn_within_a_long_list():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    numbers = [number async for number in paced(range(10 * AT_ONCE))]
    assert turns >= 9
    turns = 0
    body = await encoded_in_pieces({"numbers": numbers})
    assert turns >= 9
    task.cancel()
    assert json.loads(body) == {"numbers": [*range(10 * AT_ONCE)]}
