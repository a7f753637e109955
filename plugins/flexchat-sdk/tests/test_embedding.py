"""Texts in portions, and what comes back put together."""

import pytest
from flexchat_sdk import Batches, Embeddings, ProviderProtocolError, Usage


def asker(length=lambda texts: 2):
    """A service that embeds, and the portions it was asked for."""
    asked = []

    async def ask(texts, left_s):
        asked.append(list(texts))
        vectors = tuple((float(text),) * length(texts) for text in texts)
        return Embeddings(vectors=vectors, model="m", usage=Usage(input_tokens=len(texts)))

    return ask, asked


async def test_texts_are_sent_in_portions_and_come_back_in_order():
    ask, asked = asker()
    found = await Batches(most_texts=2).embed(["1", "2", "3"], ask, ProviderProtocolError)

    assert asked == [["1", "2"], ["3"]]
    assert found == Embeddings(vectors=((1, 1), (2, 2), (3, 3)), model="m", usage=Usage(input_tokens=3))


async def test_no_texts_are_no_request():
    ask, asked = asker()
    assert await Batches(most_texts=2).embed([], ask, ProviderProtocolError) == Embeddings(vectors=())
    assert asked == []


async def test_a_request_has_no_more_tokens_than_allowed():
    """Estimated; one text that is longer goes alone."""
    ask, asked = asker()
    await Batches(most_texts=9, most_tokens=5).embed(["1", "2", "1" * 99, "3"], ask, ProviderProtocolError)

    assert asked == [["1", "2"], ["1" * 99], ["3"]]


@pytest.mark.parametrize(("size", "most"), [(24, 2), (48, 1)])
async def test_an_answer_stays_short_enough_to_be_read(size, most):
    """16 MiB hold two vectors of 340,000 numbers of 24 bytes."""
    ask, asked = asker()
    made = Batches(most_texts=9, bytes_per_number=size)
    await made.embed(["1", "2", "3"], ask, ProviderProtocolError, dimensions=340_000)

    assert max(map(len, asked[:1])) == most


async def test_other_than_one_vector_a_text_is_an_error():
    async def ask(texts, left_s):
        return Embeddings(vectors=((1.0,),))

    with pytest.raises(ProviderProtocolError, match="1 embeddings for 2 texts"):
        await Batches(most_texts=2).embed(["1", "2"], ask, ProviderProtocolError)


@pytest.mark.parametrize("vector", [["x", 1.0], [None], [True], [[1.0]]])
async def test_what_is_no_number_is_an_error(vector):
    async def ask(texts, left_s):
        return Embeddings(vectors=(vector,))

    with pytest.raises(ProviderProtocolError, match="contain more than numbers"):
        await Batches(most_texts=2).embed(["1"], ask, ProviderProtocolError)


async def test_vectors_of_two_lengths_are_an_error():
    """Within a portion, or between two."""
    ask, _ = asker(length=len)
    with pytest.raises(ProviderProtocolError, match="different lengths"):
        await Batches(most_texts=2).embed(["1", "2", "3"], ask, ProviderProtocolError)


async def test_the_time_is_for_all_requests_together():
    times = []

    async def ask(texts, left_s):
        times.append(left_s)
        return Embeddings(vectors=((1.0,),))

    await Batches(most_texts=1).embed(["1", "2"], ask, ProviderProtocolError, timeout_s=60)
    assert 60 >= times[0] >= times[1] > 0
