"""Prices come from the config, then from the provider's package, then from genai-prices."""

import logging
import sys
import threading
from decimal import Decimal
from types import SimpleNamespace

import pytest
from flexchat import ConfigError, FlexChat
from flexchat.config.model import PriceEntry
from flexchat.domain.prices import ModelPrice, Price
from flexchat.llms.llm import LLM
from flexchat.llms.prices import configured, takes_long

TABLE = ModelPrice(price=Price(input=Decimal(1), output=Decimal(2), source="table"), window=1000)


def llm(table=None, endpoint="http://127.0.0.1:1", **entries):
    """A service whose package has a table, and for which a config sets prices."""
    provider = SimpleNamespace(name="p", endpoint=endpoint)
    if table is not None:
        provider.price_of = table.get
    return LLM(name="l", provider=provider, prices=configured(entries))


def test_the_config_comes_first_then_the_table():
    """By the name asked for, by the one that answered, for all others."""
    tables = {"m": TABLE, "m-2": TABLE}
    assert llm(tables).price_of("m") == TABLE
    assert llm(tables, m=PriceEntry(input=0.1, output=3)).price_of("m").price.input == Decimal("0.1")
    assert llm(tables, **{"m-2": PriceEntry(input=7, output=3)}).price_of("m", "m-2").price.source == "config"
    everything = llm(tables, **{"*": PriceEntry(input=0, output=0), "m": PriceEntry(input=5, output=5)})
    assert [everything.price_of(name).price.input for name in ("m", "x")] == [5, 0]


def test_the_model_that_answered_is_priced():
    """A name such as "latest" stands for different ones; if nobody knows that one, the name asked for."""
    other = ModelPrice(price=Price(input=Decimal(9), output=Decimal(9)))
    tables = {"latest": TABLE, "m-2": other}
    assert llm(tables).price_of("latest", "m-2") == other
    assert llm(tables).price_of("latest", "m-3") == TABLE


def test_what_the_config_leaves_out_is_taken_from_the_table():
    """The window without a price, and the other way round."""
    only_window = llm({"m": TABLE}, m=PriceEntry(window=8000)).price_of("m")
    assert (only_window.price, only_window.window) == (TABLE.price, 8000)
    only_price = llm({"m": TABLE}, m=PriceEntry(input=3, output=4)).price_of("m")
    assert (only_price.price.input, only_price.window) == (3, 1000)


def test_nobody_knows():
    """None, not 0; also if a provider's table breaks."""
    assert llm().price_of("m") is None

    def broken(model):
        raise KeyError(model)

    made = llm()
    made.provider.price_of = broken
    assert made.price_of("m") is None


def test_genai_prices_come_last():
    """For known addresses only, and from the data that came with it."""
    groq = llm(endpoint="https://api.groq.com").price_of("llama-3.1-8b-instant")
    assert groq.price.source.startswith("genai-prices")
    assert groq.price.input > 0
    assert llm(endpoint="https://example.org").price_of("llama-3.1-8b-instant") is None
    assert llm(endpoint="http://127.0.0.1:11434").price_of("llama-3.1-8b-instant") is None
    tiered = llm(endpoint="https://generativelanguage.googleapis.com").price_of("gemini-2.5-pro")
    assert tiered.above[0][0] == 200_000
    assert tiered.above[0][1].input > tiered.price.input


def test_only_genai_prices_take_long():
    """Not what the config or the provider's own table knows, nor a service at an address nobody knows."""
    groq, model = "https://api.groq.com", "llama-3.1-8b-instant"
    whole = PriceEntry(input=1, output=1, window=8000)
    assert takes_long(llm(endpoint=groq).provider, {}, model)
    assert takes_long(llm(endpoint=groq).provider, configured({"m": PriceEntry(input=1, output=1)}), "m")
    assert not takes_long(llm(endpoint=groq).provider, configured({"*": whole}), model)
    assert not takes_long(llm({model: TABLE}, endpoint=groq).provider, {}, model)
    assert not takes_long(llm({"x": TABLE}, endpoint=groq).provider, {}, "latest", "x")
    assert not takes_long(llm().provider, {}, model)


async def test_a_price_is_found_without_the_event_loop():
    """The search runs in another thread, once, and finds the same."""
    threads = []
    made = llm(endpoint="https://api.groq.com")
    made.provider.price_of = lambda model: threads.append(threading.current_thread() is threading.main_thread())
    price = await made.find_price("llama-3.1-8b-instant")
    assert threads == [True, False]
    assert price is await made.find_price("llama-3.1-8b-instant")
    assert price == llm(endpoint="https://api.groq.com").price_of("llama-3.1-8b-instant")
    assert len(threads) == 2


def test_without_genai_prices_the_rest_works(monkeypatch, caplog):
    """It is optional; a version that cannot be read is reported, and nothing is made up."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert llm(endpoint="https://api.groq.com").price_of("llama-3.1-8b-instant") is None
    monkeypatch.setitem(sys.modules, "genai_prices", SimpleNamespace(__path__=[]))
    odd = SimpleNamespace(get_snapshot=lambda: SimpleNamespace(providers=[object()]))
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", odd)
    with caplog.at_level(logging.WARNING):
        assert llm(endpoint="https://api.groq.com").price_of("llama-3.1-8b-instant") is None
    assert "genai-prices cannot be read" in caplog.text


def chat(prices, **rest):
    """A chat with one scripted service."""
    entry = {"provider": "scripted", "replies": [{"text": "hi"}], "prices": prices}
    return FlexChat.from_config({"llms": {"l": entry}, "responses": [{"llm": "l", "model": "m"}], **rest})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"input": 1}, "a price needs both input and output"),
        ({"cached_input": 1}, "a price needs both input and output"),
        ({"input": -1, "output": 1}, "input"),
        ({"input": "1", "output": 1}, "expected a number"),
        ({"input": 0.0000001, "output": 1}, "6 decimal places"),
        ({"input": float("nan"), "output": 1}, "input"),
        ({"imput": 1, "output": 1}, "did you mean"),
        ({"window": 0}, "window"),
    ],
)
def test_what_is_no_price_in_a_config(entry, words):
    """It is a problem with its place."""
    with pytest.raises(ConfigError, match=words) as caught:
        chat({"m": entry})
    assert "llms.l.prices.m" in str(caught.value)


async def test_a_turn_says_what_it_cost_and_what_it_does_not_know():
    """With the config's price, and without any."""
    async with chat({"m": {"input": 0, "output": 0}}) as free, chat({}) as unknown:
        for each, amount in ((free, "0"), (unknown, None)):
            turn = await each.respond("hello")
            told = turn.to_dict()["cost"]
            if turn.response.usage is None:
                assert told["unpriced"]
            else:
                assert told["amount"] == amount


async def test_from_model_takes_prices_as_a_config_has_them():
    """For the model, and for all others."""
    used = {"input_tokens": 1_000_000, "output_tokens": 0}
    for prices, amount in ({"m": {"input": 2.5, "output": 10}}, "2.5"), ({"*": {"input": 1, "output": 0}}, "1"):
        replies = [{"text": "hi", "usage": used}]
        async with FlexChat.from_model("scripted/m", prices=prices, replies=replies) as chat:
            assert (await chat.respond("hello")).cost.amount == Decimal(amount)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"m": {"inputs": 1, "output": 1}}, "prices.m.*inputs.*did you mean 'input'"),
        ({"m": {"input": float("nan"), "output": 1}}, "prices.m.input"),
        ({"m": {"input": -1, "output": 1}}, "prices.m.input"),
        ({"m": {"input": 1}}, "prices.m: a price needs both input and output"),
        ({"m": 1}, "prices.m"),
        ([], "prices"),
    ],
)
def test_from_model_refuses_what_is_no_price(prices, words):
    """With the same words, and before anything is opened."""
    with pytest.raises(ConfigError, match=words):
        FlexChat.from_model("scripted/m", prices=prices)


HOSTILE = [
    ("input", "-1", "got the number -1"),
    ("input", "nan", "expected a finite number"),
    ("input", "inf", "expected a finite number"),
    ("input", "1e400", "expected a finite number"),
    ("input", "1e7", "expected a number from 0 to 1000000"),
    ("input", "1" + "0" * 30, "expected a number from 0 to 1000000"),
    ("input", "0.0000001", "6 decimal places"),
    ("input", "1e-320", "6 decimal places"),
    ("input", '"1"', "leave out the quotes"),
    ("input", "true", "got true"),
    ("input", "[]", "got a list"),
    ("inputs", "1", "unknown key 'inputs' (did you mean 'input'?)"),
    ("ouput", "1", "unknown key 'ouput' (did you mean 'output'?)"),
    ("window", "0", "at least 1"),
    ("window", "1.5", "a whole number"),
    ("window", "true", "a whole number"),
]


@pytest.mark.parametrize(("key", "value", "words"), HOSTILE)
def test_a_price_that_is_none_is_refused_with_file_and_line(tmp_path, key, value, words):
    """In TOML; it says the place, too, and nothing else is wrong."""
    others = "".join(f"{name} = 1\n" for name in ("input", "output") if name != key)
    (tmp_path / "flexchat.toml").write_text(
        '[llms.gpt]\nprovider = "scripted"\n\n[[responses]]\nllm = "gpt"\nmodel = "m"\n\n'
        f'[llms.gpt.prices."m"]\n{key} = {value}\n{others}'
    )

    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(tmp_path / "flexchat.toml")
    told = str(caught.value).splitlines()
    assert all("flexchat.toml:9: llms.gpt.prices.m" in line for line in told), told
    assert words in told[0]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "-1", '"1"', "true", "null", "[]", "{}"])
def test_a_price_that_is_none_is_refused_in_json(tmp_path, value):
    """JSON's numbers have no bounds, and Python reads more than JSON has."""
    prices = f'{{\n"m": {{"input": {value}, "output": 1}}}}'
    llms = f'{{"gpt": {{"provider": "scripted", "prices": {prices}}}}}'
    (tmp_path / "c.json").write_text(f'{{"llms": {llms}, "responses": [{{"llm": "gpt", "model": "m"}}]}}')

    with pytest.raises(ConfigError, match=r"c\.json:2: llms\.gpt\.prices\.m"):
        FlexChat.from_config(tmp_path / "c.json")


def test_minus_zero_is_zero():
    """TOML has it; a cost is never "-0"."""
    known = llm(m=PriceEntry(input=-0.0, output=-0.0)).price_of("m")
    assert known.price.to_dict() == {"input": "0", "output": "0", "source": "config"}
