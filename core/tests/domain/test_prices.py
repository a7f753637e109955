"""Costs are exact decimal numbers, and what is not priced is said, never counted as nothing."""

import json
from decimal import Decimal

import pytest
from flexchat.domain import PhaseRecord, Profile, Round, Turn, Usage
from flexchat.domain.chat import ChatResponse
from flexchat.domain.codec import value_from_dict
from flexchat.domain.conversation import turn_from_json, turn_to_json
from flexchat.domain.prices import Cost, ModelPrice, Price, dollars
from flexchat.turn.recording import conversation_turn
from hypothesis import given
from hypothesis import strategies as st

rates = st.decimals(0, 1000, places=6)
prices = st.builds(
    Price,
    input=rates,
    output=rates,
    cached_input=st.none() | rates,
    cache_write=st.none() | rates,
    reasoning=st.none() | rates,
    source=st.just("test"),
)
counts = st.integers(0, 10**8)


@st.composite
def usages(draw):
    """Counts that agree with each other."""
    read, cached, written, said, thought = (draw(counts) for _ in range(5))
    return Usage(
        input_tokens=read + cached + written,
        output_tokens=said + thought,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    )


costs = st.builds(
    Cost,
    amount=st.none() | st.decimals(0, 10**6, places=12),
    unpriced=st.lists(st.sampled_from("abc"), unique=True).map(tuple),
)


@given(prices, usages())
def test_a_cost_is_the_sum_of_its_parts(price, usage):
    """Each token is paid for once, at its own rate; the result is a whole number of trillionths of a dollar."""
    parts = [
        (usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens, price.input),
        (usage.cache_read_tokens, price.input if price.cached_input is None else price.cached_input),
        (usage.cache_write_tokens, price.input if price.cache_write is None else price.cache_write),
        (usage.output_tokens - usage.reasoning_tokens, price.output),
        (usage.reasoning_tokens, price.output if price.reasoning is None else price.reasoning),
    ]
    amount = price.amount(usage)

    assert amount * 1_000_000 == sum((count * rate for count, rate in parts), Decimal(0))
    cost = Cost(amount=amount)
    trillionths, gaps = cost.summand
    if amount <= 1_000_000:
        assert (trillionths, gaps) == (amount * 10**12, 0)
        assert Cost.of_turns(trillionths, gaps) == cost
    else:
        assert (trillionths, gaps) == (None, 1)


@given(st.lists(costs))
def test_sums_do_not_depend_on_the_order(parts):
    """Nor on how they are grouped; nothing unpriced is lost, and nothing counts as 0."""
    total = Cost.total(parts)
    assert Cost.total(reversed(parts)).amount == total.amount
    middle = len(parts) // 2
    halves = [Cost.total(half) for half in (parts[:middle], parts[middle:]) if half]
    assert Cost.total(halves) == total
    known = [part.amount for part in parts if part.amount is not None]
    assert total.amount == (sum(known) if known or not parts else None)
    assert set(total.unpriced) == {reason for part in parts for reason in part.unpriced}


@given(prices, usages())
def test_a_cost_is_between_that_of_the_cheapest_and_of_the_dearest_rate(price, usage):
    """Whatever is cached or thought; and where those rates are not dearer, caching never makes it dearer."""
    known = [r for r in (price.input, price.cached_input, price.cache_write) if r is not None]
    told = [r for r in (price.output, price.reasoning) if r is not None]
    amount = price.amount(usage) * 1_000_000
    assert min(known) * usage.input_tokens + min(told) * usage.output_tokens <= amount
    assert amount <= max(known) * usage.input_tokens + max(told) * usage.output_tokens

    plain = price.amount(Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens))
    if max(known) == price.input and max(told) == price.output:
        assert price.amount(usage) <= plain


@given(prices, usages(), usages())
def test_more_tokens_never_cost_less(price, usage, more):
    assert price.amount(usage) <= price.amount(usage + more) == price.amount(usage) + price.amount(more)


def test_no_float_drift():
    """A million times a tenth of a cent is a thousand dollars, to the last digit."""
    price = Price(input=Decimal("0.1"), output=Decimal("0.2"))
    one = Cost(amount=price.amount(Usage(input_tokens=1, output_tokens=1)))
    assert Cost.total([one] * 100_000).amount == Decimal("0.03")


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(input_tokens=1),
        Usage(output_tokens=1),
        Usage(input_tokens=1, output_tokens=1, cache_read_tokens=2),
        Usage(input_tokens=2, output_tokens=1, cache_read_tokens=1, cache_write_tokens=2),
        Usage(input_tokens=1, output_tokens=1, reasoning_tokens=2),
        Usage(input_tokens=-1, output_tokens=1),
        Usage(input_tokens=10**10, output_tokens=1),
        Usage(input_tokens=1, output_tokens=10**4000),
    ],
)
def test_counts_that_say_nothing_have_no_price(usage):
    """Missing, or contradicting each other."""
    price = Price(input=Decimal(1), output=Decimal(1))
    assert price.amount(usage) is None
    (why,) = Round(llm="l", model="m", elapsed_ms=1, usage=usage, price=price).cost.unpriced
    assert why == "l did not say how many tokens m read and wrote"


@pytest.mark.parametrize("rate", [Decimal("-1"), Decimal("NaN"), Decimal("Infinity"), 1.5, Decimal("0.0000001")])
def test_what_is_no_rate(rate):
    """Negative, no number, a float, too many places."""
    with pytest.raises(ValueError, match="input"):
        Price(input=rate, output=Decimal(1))


@given(prices)
def test_a_price_goes_through_json(price):
    """As text, without floats."""
    assert value_from_dict(Price, json.loads(json.dumps(price.to_dict()))) == price


@pytest.mark.parametrize(
    "data", [[], "1", {}, {"input": "x", "output": "1"}, {"input": "1"}, {"input": "-1", "output": "1"}]
)
def test_what_is_no_price(data):
    """It is refused with a reason."""
    with pytest.raises(ValueError, match=r"expected|incomplete|dollars|at least 0"):
        value_from_dict(Price, data)


def test_long_requests_have_their_own_price():
    """From one token above the limit on, for all tokens."""
    low, high, higher = (Price(input=Decimal(n), output=Decimal(n)) for n in (1, 2, 3))
    model = ModelPrice(price=low, above=((100, high), (200, higher)))
    read = {tokens: model.of(Usage(input_tokens=tokens)).input for tokens in (0, 100, 101, 200, 201)}
    assert read == {0: 1, 100: 1, 101: 2, 200: 2, 201: 3}
    assert model.of(None) == low


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0"), ("12.346", "12.35"), ("1234.5", "1,234.50"), ("0.0123456", "0.012"), ("0.00000123", "0.0000012")],
)
def test_amounts_for_people(amount, text):
    assert dollars(Decimal(amount)).rstrip("0") == text.rstrip("0")


def turn(*rounds, phases=(), **rest):
    """A turn with these rounds."""
    response = ChatResponse(content="x", llm="l", model="m", rounds=rounds)
    profile = Profile(topic="", user_message="hi")
    return Turn(id="1", profile=profile, rule=0, response=response, phases=phases, elapsed_ms=1, **rest)


def asked(amount=None, llm="l"):
    """A round that cost so many dollars; None for one without a price."""
    price = None if amount is None else Price(input=Decimal(amount), output=Decimal(0), source="test")
    return Round(llm=llm, model="m", elapsed_ms=1, usage=Usage(input_tokens=1_000_000, output_tokens=5), price=price)


def test_a_turn_costs_what_all_its_requests_cost():
    """Those of the phases, of the tool loop, and of whoever took over."""
    phase = PhaseRecord(phase="topic detection", outcome=None, elapsed_ms=1, rounds=(asked("0.5"),))
    assert turn(asked("1"), asked("2", "other"), phases=(phase,)).cost == Cost(amount=Decimal("3.5"))
    assert turn().cost == Cost(amount=Decimal(0))


def test_a_partly_priced_turn_says_so():
    """And one without any price has no amount."""
    partly = turn(asked("1"), asked(llm="local")).cost
    assert (partly.amount, partly.unpriced) == (Decimal(1), ("no price is known for m of local",))
    assert str(partly) == "at least $1.00"
    assert not partly.is_complete
    unknown = turn(asked(llm="local")).cost
    assert (unknown.amount, str(unknown), unknown.to_dict()["amount"]) == (None, "unpriced", None)


def test_a_turn_that_did_not_end_is_not_fully_priced():
    """Nobody knows what the request cost that was under way."""
    assert turn(asked("1"), status="cancelled").cost.unpriced
    assert turn(status="failed").cost.amount is None


def test_a_kept_turn_keeps_its_price():
    """Through the store's JSON and the caller's; an old one reads as unpriced."""
    phase = PhaseRecord(phase="topic detection", outcome=None, elapsed_ms=1, rounds=(asked("0.5"),))
    made = turn(asked("1.25"), phases=(phase,))
    kept = turn_from_json(turn_to_json(conversation_turn(made)))
    assert kept.cost == made.cost == Cost(amount=Decimal("1.75"))
    assert kept.rounds[0].price.source == "test"
    assert Turn.from_dict(json.loads(json.dumps(made.to_dict()))).cost == made.cost

    old = json.loads(turn_to_json(conversation_turn(made)))
    del old["phases"][0]["rounds"]
    del old["rounds"][0]["price"]
    assert turn_from_json(json.dumps(old)).cost == Cost(unpriced=("no price is known for m of l",))
    del old["rounds"]
    assert turn_from_json(json.dumps(old)).cost.unpriced == ("it was kept without prices",)


def test_a_kept_turn_that_did_not_end_says_so_and_not_that_it_is_old():
    """Also one without any answer, which is not known to have cost nothing."""
    for made in (turn(status="cancelled"), turn(status="failed"), turn(asked("1"), status="cancelled")):
        (why,) = conversation_turn(made).cost.unpriced
        assert why.startswith("the turn did not end")


@pytest.mark.parametrize(
    ("amount", "shown"), [("0.100000", "0.1"), ("0.00", "0"), ("1E+3", "1000"), ("12.50", "12.5"), ("7", "7")]
)
def test_a_cost_has_no_trailing_zeros(amount, shown):
    """Wherever it is printed; what is unknown counts as 0 where costs are added up and compared."""
    cost = Cost(amount=Decimal(amount))

    assert (str(cost.amount), cost.known_amount) == (shown, Decimal(amount))
    assert cost.to_dict()["amount"] == shown
    assert Cost(unpriced=("no price",)).known_amount == 0
