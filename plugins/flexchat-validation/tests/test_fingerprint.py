"""What results are valid for: hashes that change with what matters, and with nothing else."""

import hashlib
import types

import attrs
import pytest
from flexchat import Implementation, ModelInfo, ToolDefinition
from flexchat.calls.manager import ToolManager
from flexchat_sdk import ProviderConnectionError
from flexchat_validation.attempts import ModelKey
from flexchat_validation.cases import Case, CaseTool, ExpectedCall, ToolMock, ValidationTable
from flexchat_validation.fingerprint import case_hash, case_hashes, model_keys, stale_reasons, tools_hash
from hypothesis import given
from hypothesis import strategies as st


def tool(name, description="Does it.", **changes):
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    return ToolDefinition(
        **{
            "name": name,
            "description": description,
            "parameters": schema,
            "implementation": Implementation(type="mock"),
            **changes,
        }
    )


ONE, TWO = tool("one"), tool("two")
CASE = Case(name="c", message="Do it.", calls=(ExpectedCall(tool="one", arguments={"a": "x"}),))


def test_the_hash_is_of_what_the_model_is_told():
    """Neither order, nor the order of keys, nor how a tool is run."""
    other_order = {"properties": {"b": {"type": "number"}, "a": {"type": "string"}}, "type": "object"}
    run_otherwise = tool("two", implementation=Implementation(type="http"), timeout_ms=5, effect="read")

    assert tools_hash([ONE, TWO]) == tools_hash([run_otherwise, attrs.evolve(ONE, parameters=other_order)])
    assert tools_hash([ONE, TWO]) == tools_hash([ONE, tool("two", parameters=types.MappingProxyType(TWO.parameters))])
    assert len(tools_hash([])) == 64


@pytest.mark.parametrize(
    "others",
    [[ONE], [ONE, tool("Two")], [ONE, tool("two", "Does it!")], [ONE, tool("two", parameters={"type": "object"})]],
)
def test_what_the_model_is_told_changes_the_hash(others):
    """Name, description, parameters, and which tools there are."""
    assert tools_hash(others) != tools_hash([ONE, TWO])


@given(st.permutations([tool(name) for name in "abcd"]))
def test_the_order_of_tools_changes_nothing(tools):
    """Law."""
    assert tools_hash(tools) == tools_hash([tool(name) for name in "abcd"])


def test_the_hash_of_a_case_is_of_what_it_asks_expects_and_offers():
    """Not of its name and tags, nor of tools it does not offer."""
    whole = case_hash(CASE, [ONE, TWO])

    assert case_hash(attrs.evolve(CASE, name="d", tags=("x",)), [TWO, ONE]) == whole
    assert case_hash(attrs.evolve(CASE, message="Do it"), [ONE, TWO]) != whole
    assert case_hash(attrs.evolve(CASE, mocks={"one": ToolMock(result=1)}), [ONE, TWO]) != whole
    assert case_hash(CASE, [ONE]) != whole
    limited = attrs.evolve(CASE, tools=("one",))
    assert case_hash(limited, [ONE, TWO]) == case_hash(limited, [ONE, tool("two", "Another.")])
    assert case_hash(limited, [ONE]) != case_hash(limited, [tool("one", "Another.")])


def test_what_a_case_is_asked_with_counts_unless_it_says_its_own():
    """The prompt, the temperature and the length of answers; not how often or how many at once."""
    asked = case_hash(CASE, [], ValidationTable())

    assert asked == case_hash(CASE, []) == case_hash(CASE, [], ValidationTable(runs=5, concurrency=9))
    for table in (ValidationTable(prompt="Be brief."), ValidationTable(temperature=0), ValidationTable(max_tokens=9)):
        assert case_hash(CASE, [], table) != asked
    own = attrs.evolve(CASE, prompt="Its own.")
    assert case_hash(own, [], ValidationTable(prompt="Be brief.")) == case_hash(own, [], ValidationTable())


def test_own_tools_count_once_whether_or_not_they_are_among_those_given():
    """Whoever has put the offered tools together gets the same hash as whoever has only the config's."""
    own = CaseTool(name="one", description="Its own.", parameters={"type": "object"})
    case = attrs.evolve(CASE, own_tools=(own,))

    assert case_hash(case, [ONE, TWO]) == case_hash(case, [tool("one", "Its own."), TWO]) == case_hash(case, [TWO])
    changed = attrs.evolve(case, own_tools=(attrs.evolve(own, description="Changed."),))
    assert case_hash(changed, [TWO]) != case_hash(case, [TWO])


def test_no_calls_is_not_the_same_as_calls_that_are_not_named():
    """An empty list says something."""
    assert case_hash(attrs.evolve(CASE, calls=()), []) != case_hash(attrs.evolve(CASE, calls=None), [])


def test_what_a_case_does_not_say_does_not_count():
    """So that a key which cases may have one day makes no result stale."""
    said = hashlib.sha256(b'[{"message":"Hi"},[]]').hexdigest()

    assert case_hash(Case(name="x", message="Hi"), []) == said


def test_hashes_come_in_the_order_of_the_cases():
    """By name."""
    cases = [attrs.evolve(CASE, name=name) for name in "zab"]

    assert list(case_hashes(cases, [ONE])) == ["z", "a", "b"]


class Chat:
    packages = types.MappingProxyType({"local": "flexchat-ollama 0.1.0"})

    def __init__(self):
        self.asked = 0
        self.tools = ToolManager()
        self.tools.add([ONE])

    async def list_models(self, timeout_s=None, llms=None):
        self.asked += 1
        listed = {
            "local": (ModelInfo(id="a/b:1", digest="d1"), ModelInfo(id="c")),
            "away": ProviderConnectionError("no answer"),
        }
        self.llms = llms
        return {name: answer for name, answer in listed.items() if name in llms}


async def test_a_key_has_what_service_plugin_and_registry_tell():
    """One question for all; a service that does not answer tells no digest."""
    chat = Chat()
    keys = await model_keys(chat, ["local/a/b:1", "local/c", "local/none", "away/x", "away", "local/c"])
    tools = tools_hash([ONE])

    assert chat.asked == 1
    assert keys == {
        "local/a/b:1": ModelKey(model_id="local/a/b:1", digest="d1", package="flexchat-ollama 0.1.0", tools=tools),
        **{id: ModelKey(model_id=id, package="flexchat-ollama 0.1.0", tools=tools) for id in ("local/c", "local/none")},
        **{id: ModelKey(model_id=id, tools=tools) for id in ("away/x", "away")},
    }
    assert chat.llms == {"local", "away"}  # and no other
    assert await model_keys(chat, []) == {}
    assert chat.asked == 1


KEY = ModelKey(model_id="m", digest="1", package="flexchat-openai 0.1.0", tools="t")


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, ()),
        ({"digest": "2"}, ("the model behind this name was replaced",)),
        ({"package": "flexchat-openai 0.2.0"}, ("flexchat-openai 0.1.0 is now 0.2.0",)),
        ({"package": "flexchat-ollama 0.1.0"}, ("flexchat-openai 0.1.0 is now flexchat-ollama 0.1.0",)),
        ({"tools": "u"}, ("the tools have changed",)),
        ({"digest": None, "package": "", "tools": None}, ()),
    ],
)
def test_what_has_changed_is_said_and_what_is_not_known_is_no_reason(changes, reasons):
    """On either side."""
    now = attrs.evolve(KEY, **changes)

    assert stale_reasons(KEY, now) == reasons
    assert len(stale_reasons(now, KEY)) == len(reasons)
