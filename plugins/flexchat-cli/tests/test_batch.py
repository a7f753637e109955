"""flexchat batch: many prompts, their answers in order, and what happens when it is cut off."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from flexchat.domain import ChatRequest, Usage
from flexchat.errors import ProviderError
from flexchat_cli.batch import Prompt, in_order
from flexchat_testing.scripted import ScriptedProvider

CONFIG = """
[llms.bot]
provider = "rehearsal"

[[responses]]
llm = "bot"
model = "m"
tools.enabled = true

[[tools.registry]]
name = "pay"
description = "Pay the bill"
parameters = { type = "object", properties = {} }
effect = "write"
implementation = { type = "python", function = "shop:pay" }
"""
SHOP = """
import os
import re

def pay():
    number = len(open("paid.txt").read().split()) if os.path.exists("paid.txt") else 0
    with open("paid.txt", "a") as file:
        file.write("paid\\n")
    if number == int(os.environ.get("DIE_AT", "-1")):
        os._exit(9)
    return {"number": number}
"""


def prompts(count):
    return [Prompt(line=n, id=n, request=ChatRequest(user_message=str(n)), digest=str(n)) for n in range(count)]


async def test_answers_come_in_the_order_of_the_prompts_and_no_more_are_asked_at_a_time_than_allowed():
    """The first is the slowest, and one fails."""
    now = most = 0
    go_on = [asyncio.Event() for _ in range(6)]

    async def ask(prompt):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await go_on[prompt.id].wait()
        now -= 1
        if prompt.id == 3:
            raise ProviderError("it is down", provider="x")
        return prompt.id

    found = []

    async def read():
        async for prompt, outcome in in_order(prompts(6), ask, 3):
            found.append((prompt.id, outcome if isinstance(outcome, int) else str(outcome)))

    reading = asyncio.create_task(read())
    for number in (2, 1, 5, 4, 3, 0):
        go_on[number].set()
        for _ in range(10):
            await asyncio.sleep(0)
    await reading

    assert found == [(0, 0), (1, 1), (2, 2), (3, "it is down"), (4, 4), (5, 5)]
    assert most == 3


async def test_who_stops_reading_stops_the_asking():
    """Nothing goes on in the background."""
    left = []

    async def ask(prompt):
        try:
            await asyncio.Event().wait()
        finally:
            left.append(prompt.id)

    answers = in_order(prompts(5), ask, 2)
    reading = asyncio.create_task(anext(answers))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})

    assert left == [0, 1]


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """Return a function that runs the command in a process: its status, its lines, and what it said."""
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    (tmp_path / "shop.py").write_text(SHOP)

    def run(text, *options, **environment):
        (tmp_path / "p.jsonl").write_text(text)
        done = subprocess.run(
            [Path(sys.executable).with_name("flexchat"), "batch", "p.jsonl", *options],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    run.paid = lambda: (tmp_path / "paid.txt").read_text().count("paid") if (tmp_path / "paid.txt").exists() else 0
    return run


@pytest.mark.slow
def test_each_prompt_has_a_line(batch):
    """With its own id or its number; what was written wrong is said before anything is asked."""
    status, lines, said = batch('"Hello"\n\n{"message": "Pay the bill", "id": "b"}\n')
    assert (status, [line["id"] for line in lines], lines[1]["tools"]) == (0, [1, "b"], ["pay"])
    assert "2 of 2 prompts answered" in said

    status, lines, said = batch('"Pay the bill"\n{"mesage": "Hello"}\n')
    assert (status, lines, batch.paid()) == (2, [], 1)
    assert "p.jsonl:2: has the unknown key 'mesage' (did you mean 'message'?)" in said

    status, lines, _ = batch('"Hello"\n', "--json")
    assert (status, lines[0]["id"], lines[0]["turn"]["model"]) == (0, 1, "m")


@pytest.mark.slow
def test_a_batch_that_was_killed_goes_on_and_pays_nothing_twice(batch):
    """Killed while the third payment is made: those before are not made again, and it is unknown, never repeated."""
    text = "".join(f'{{"message": "Pay the bill", "id": "bill {n}"}}\n' for n in range(5))

    status, lines, _ = batch(text, "--parallel", "1", DIE_AT="2")
    assert (status, len(lines), batch.paid()) == (9, 2, 3)

    status, lines, said = batch(text, "--parallel", "1")
    assert (status, [line["id"] for line in lines]) == (0, [f"bill {n}" for n in range(5)])
    assert batch.paid() == 5
    assert "5 of 5 prompts answered, 3 of them by an earlier run" in said

    status, lines, said = batch(text, "--parallel", "1")
    assert (status, len(lines), batch.paid()) == (0, 5, 10), "one that was done is asked again"
    assert "earlier" not in said


@pytest.mark.slow
def test_with_nothing_kept_it_begins_at_the_start(batch):
    """As asked for."""
    for _ in range(2):
        assert batch('"Pay the bill"\n', "--no-keep")[0] == 0

    assert batch.paid() == 2


PRICED = """
[llms.bot]
provider = "scripted"
repeat = true
replies = [{ text = "Right." }]
prices.m = { input = 1, output = 10 }

[llms.free]
provider = "scripted"
repeat = true
replies = [{ text = "So." }]

[[responses]]
llm = "free"
model = "n"
match = { user_message_contains = "free" }

[[responses]]
llm = "bot"
model = "m"
"""


def test_what_a_batch_costs_is_said_after_it(run, tmp_path, monkeypatch):
    generate = ScriptedProvider.generate_chat

    async def counted(self, *args):
        return attrs.evolve(await generate(self, *args), usage=Usage(input_tokens=1000, output_tokens=100))

    monkeypatch.setattr(ScriptedProvider, "generate_chat", counted)
    (tmp_path / "flexchat.toml").write_text(PRICED)
    (tmp_path / "p.jsonl").write_text('"one"\n"two"\n')
    priced = run("batch", "p.jsonl", "--no-keep")
    (tmp_path / "p.jsonl").write_text('"one"\n"free two"\n')
    partly = run("batch", "p.jsonl", "--no-keep")

    assert priced.err.splitlines()[-1] == "2 of 2 prompts answered, $0.004"
    assert partly.err.splitlines()[-1] == ("2 of 2 prompts answered, at least $0.002 (no price is known for n of free)")


def test_what_a_batch_would_cost_is_said_before_it(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(PRICED)
    (tmp_path / "p.jsonl").write_text(f'"{"x" * 35_000}"\n"free two"\n')
    said, told = run("batch", "p.jsonl", "--estimate"), run("batch", "p.jsonl", "--estimate", "--json")
    first, second, together = said.out.splitlines()
    data = json.loads(told.out)

    assert re.fullmatch(r"bot/m: 1 prompt, about 10,0\d\d tokens to read, \$0\.01", first)
    assert re.fullmatch(r"free/n: 1 prompt, about \d+ tokens to read, unpriced", second)
    assert together == "together: at least $0.01"
    assert "answers, and further requests after tool calls, come on top" in said.err
    assert [row["prompts"] for row in data["models"]] == [1, 1]
    assert data["cost"]["unpriced"] == ["no price is known for n of free"]


def test_an_estimate_asks_nothing(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        PRICED.replace('replies = [{ text = "So." }]', 'replies = [{ error = "auth" }]')
    )
    (tmp_path / "p.jsonl").write_text('"free"\n')

    assert run("batch", "p.jsonl", "--estimate").status == 0
    assert run("batch", "p.jsonl", "--no-keep").status == 1


USED = "usage = { input_tokens = 1000, output_tokens = 100 }"  # $0.002


@pytest.fixture
def limited(run, tmp_path):
    """Answer prompts with a model that takes $0.002 for each; return the run and the prompts that were answered."""
    (tmp_path / "flexchat.toml").write_text(
        PRICED.replace('{ text = "Right." }', f'{{ text = "Right.", {USED} }}').replace(
            '[[responses]]\nllm = "free"\nmodel = "n"\nmatch = { user_message_contains = "free" }\n', ""
        )
    )
    (tmp_path / "p.jsonl").write_text("".join(f'"{n}"\n' for n in range(1, 11)))

    def call(*words):
        done = run("batch", "p.jsonl", "--parallel", "1", *words)
        return done, [json.loads(line)["id"] for line in done.out.splitlines()]

    return call


@pytest.mark.slow
def test_no_prompt_is_begun_once_a_batch_has_cost_enough(limited):
    """The same command with more goes on, and what was paid before counts; with as much, it asks nothing."""
    told = "$0.006; stopped at --max-cost 0.005, with $0.006 spent; the same command with a higher --max-cost goes on"
    done, answered = limited("--max-cost", "0.005")
    assert (done.status, answered) == (1, [1, 2, 3])
    assert f"3 of 10 prompts answered, {told} from there" in done.err

    done, answered = limited("--max-cost", "0.005")
    assert (done.status, answered) == (1, [1, 2, 3])
    assert f"3 of 10 prompts answered, 3 of them by an earlier run, {told}" in done.err

    done, answered = limited("--max-cost", "0.0061", "--parallel", "4")
    assert done.status == 1
    assert answered == [*range(1, len(answered) + 1)]
    assert 4 <= len(answered) <= 7, "those under way end"

    done, again = limited("--max-cost", "0.0061")
    assert again == answered, "what was answered is written, also beyond the limit"

    done, answered = limited("--max-cost", "1")
    assert (done.status, answered) == (0, [*range(1, 11)])
    assert "stopped" not in done.err


def test_a_limit_without_anything_kept(limited):
    done, answered = limited("--max-cost", "0.002", "--no-keep")
    assert (done.status, answered) == (1, [1])
    assert done.err.splitlines()[-1].endswith("$0.002; stopped at --max-cost 0.002, with $0.002 spent")


def test_a_limit_needs_prices(run, tmp_path):
    """Before anything is asked: the error says which, and how to set them."""
    (tmp_path / "flexchat.toml").write_text(PRICED)
    (tmp_path / "p.jsonl").write_text('"one"\n')
    refused = run("batch", "p.jsonl", "--max-cost", "1")
    assert (refused.status, refused.out) == (2, "")
    assert "--max-cost cannot be kept: no price is known for free/n. Set it in the config" in refused.err
    assert '[llms.free] prices."n" = { input = …, output = … }, in US dollars per million tokens' in refused.err

    priced = PRICED.replace("[llms.free]", '[llms.free]\nprices."n" = { input = 0, output = 0 }')
    (tmp_path / "flexchat.toml").write_text(priced)
    assert run("batch", "p.jsonl", "--max-cost", "1").status == 0


def test_a_fallback_and_who_finds_the_topic_need_prices_too(run, tmp_path):
    (tmp_path / "p.jsonl").write_text('"one"\n')
    fallback = PRICED.replace('llm = "bot"\nmodel = "m"', 'llm = "bot"\nmodel = "m"\nfallback = ["free"]')
    fallback = fallback.replace('llm = "free"\nmodel = "n"', 'llm = "bot"\nmodel = "m"')
    (tmp_path / "flexchat.toml").write_text(fallback.replace("[llms.free]", '[llms.free]\ndefault_model = "f"'))
    assert "no price is known for free/f. Set" in run("batch", "p.jsonl", "--max-cost", "1").err

    topic = (
        PRICED.replace('llm = "free"\nmodel = "n"', 'llm = "bot"\nmodel = "m"')
        + '\n[topic]\nllm = "free"\nmodel = "t"\n'
    )
    (tmp_path / "flexchat.toml").write_text(topic)
    assert "no price is known for free/t" in run("batch", "p.jsonl", "--max-cost", "1").err


def test_a_service_that_does_not_count_ends_a_batch_with_a_limit(limited, tmp_path):
    """Nobody would know when it has cost enough."""
    config = tmp_path / "flexchat.toml"
    config.write_text(config.read_text().replace(f", {USED}", ""))
    done, answered = limited("--max-cost", "1")
    assert (done.status, answered) == (1, [1])
    assert "stopped, as it is not known what an answer cost: bot did not say how many tokens m read" in done.err
    assert "the same command without --max-cost goes on" in done.err


def test_a_prompt_that_fails_does_not_end_a_batch_with_a_limit(limited, tmp_path):
    """What it cost is not known, and not much."""
    config = tmp_path / "flexchat.toml"
    config.write_text(config.read_text().replace("replies = [{ text", 'replies = [{ error = "request" }, { text'))
    done, answered = limited("--max-cost", "0.005")
    assert (done.status, answered) == (1, [1, 2, 3, 4, 5, 6])
    assert "at least $0.006" in done.err


@pytest.mark.parametrize("amount", ["0", "-1", "nan", "inf", "-inf", "1e9999999", "x", "", "1,5", "$1", "0x10", "٣x"])
def test_what_is_no_limit(limited, amount):
    """One line, and nothing is asked."""
    done, answered = limited("--max-cost", amount)
    assert (done.status, answered) == (2, [])
    assert "is not an amount of US dollars above 0, such as 0.50" in done.err


@pytest.fixture
def asked(monkeypatch):
    """What the scripted model is asked: its name, the texts, the options."""
    found, generate = [], ScriptedProvider.generate_chat

    async def generate_chat(self, messages, model, options):
        found.append((model, [message.content for message in messages], options))
        return await generate(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "generate_chat", generate_chat)
    return found


SCRIPTED = ["-o", "repeat=true", "-o", 'replies=[{"text": "Yes."}]']


def test_who_answers_and_how_is_said_as_for_ask(run, tmp_path, asked):
    """A line's own options come first; no configuration is needed."""
    (tmp_path / "p.jsonl").write_text('"one"\n{"message": "two", "temperature": 1}\n')
    options = ["-m", "scripted/m", *SCRIPTED, "-s", "Be brief.", "-T", "calculator", "-o", "temperature=0", "--no-keep"]
    ran = run("batch", "p.jsonl", *options, "--parallel", "1")

    assert (ran.status, ran.out.count("\n")) == (0, 2), ran
    assert [(model, texts) for model, texts, _ in asked] == [("m", ["Be brief.", "one"]), ("m", ["Be brief.", "two"])]
    assert [options.temperature for *_, options in asked] == [0, 1]
    assert [tool["function"]["name"] for tool in asked[0][2].tools] == ["calculator"]


NAMED = (
    PRICED
    + """
[prompts.greet]
prompt = "Say {{word}} to {{message}}"
variables = { word = "hello" }
"""
)


def test_a_named_prompt_is_filled_in_for_every_line(run, tmp_path, asked):
    (tmp_path / "flexchat.toml").write_text(NAMED)
    (tmp_path / "p.jsonl").write_text('"Ada"\n{"message": "Bob", "variables": {"word": "bye"}}\n')
    ran = run("batch", "p.jsonl", "-t", "greet", "--no-keep", "--parallel", "1")
    varied = run("batch", "p.jsonl", "-t", "greet", "--var", "word=hi", "--no-keep", "--parallel", "1")

    assert (ran.status, varied.status) == (0, 0)
    assert [texts[-1] for _, texts, _ in asked] == [
        "Say hello to Ada",
        "Say bye to Bob",
        "Say hi to Ada",
        "Say bye to Bob",
    ]


def test_a_line_that_a_named_prompt_cannot_use_is_said_with_its_number(run, tmp_path, asked):
    (tmp_path / "flexchat.toml").write_text(NAMED)
    (tmp_path / "p.jsonl").write_text('"Ada"\n""\n{"message": "Bob", "variables": [1]}\n{"message": 1}\n')
    ran = run("batch", "p.jsonl", "-t", "greet", "--no-keep")

    assert (ran.status, asked) == (2, [])
    assert "p.jsonl:2: the prompt 'greet' needs a message" in ran.err
    assert "p.jsonl:3: variables" in ran.err
    assert "p.jsonl:4: " in ran.err


def test_other_options_make_another_batch(run, tmp_path, asked):
    """What one model has answered is not given as another's answer."""
    (tmp_path / "p.jsonl").write_text('"one"\n{"message": "two", "id": 2}\n')
    replies = ["-o", 'replies=[{"text": "Yes."}]']  # one, and two are asked for
    first = run("batch", "p.jsonl", "-m", "scripted/m", *replies, "--parallel", "1")
    other = run("batch", "p.jsonl", "-m", "scripted/n", *SCRIPTED)

    assert (first.status, other.status) == (1, 0)
    assert [model for model, *_ in asked] == ["m", "m", "n", "n"]


def test_a_limit_needs_the_price_of_the_model_named(run, tmp_path):
    (tmp_path / "p.jsonl").write_text('"one"\n')
    ran = run("batch", "p.jsonl", "-m", "scripted/m", "--max-cost", "1")

    assert (ran.status, ran.out) == (2, "")
    assert """Set it here: -o prices='{"m": {"input": …, "output": …}}', in US dollars""" in ran.err

    priced = ["-o", 'prices={"m": {"input": 0, "output": 0}}']
    assert "no price" not in run("batch", "p.jsonl", "-m", "scripted/m", *SCRIPTED, *priced, "--max-cost", "1").err
