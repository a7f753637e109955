"""What a configuration asks for, and gets or is refused: plugins, tools, services, and all that at once."""

import attrs
import flexchat
import pytest
from flexchat import ConfigError, FlexChat, Problem
from flexchat.config.model import Config, own_keys
from flexchat.errors import ToolDefinitionError
from flexchat.plugin import (
    ConfigCheck,
    ConfigTable,
    Implementation,
    ImplementationType,
    ToolDefinition,
    ToolHandler,
    ToolResult,
    hookimpl,
)
from flexchat.plugin.host import CORE_TABLES, PluginHost
from flexchat.store import ConversationStoreType, DocumentStoreType, RerankerType
from flexchat_builtin import plugin as builtin
from flexchat_cli import check_config
from flexchat_internal import plugin as internal
from flexchat_mock import plugin as mock
from flexchat_sdk import ProviderType

CONFIG = {
    "llms": {"robot": {"provider": "rehearsal"}},
    "responses": [{"llm": "robot", "model": "any"}],
}


class Policy:
    @hookimpl
    def flexchat_before_tool_call(self, tool):
        return ToolResult.failed(tool.name, "forbidden")


class Typo:
    @hookimpl
    def flexchat_before_tool_cal(self, tool):
        """Never called."""


def host_with(*, gate=False, block=None, **plugins):
    """A host with the mock package and these plugins."""
    host = PluginHost(block=block)
    host.register(mock, "mock", "flexchat-mock 0.1.0")
    for name, plugin in plugins.items():
        host.register(plugin, name, f"acme-{name} 1.0", gate=gate)
    return host


def problems_of(config, host):
    """What check says, which must be what starting says."""
    problems, _ = check_config(config, host)
    if not problems:
        FlexChat.from_config(config, plugins=host)
        return []
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(config, plugins=host)
    assert [*map(str, caught.value.problems)] == [*map(str, problems)]
    return [(problem.path, problem.text) for problem in problems]


def test_a_required_plugin_that_is_active_is_no_problem():
    assert problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host_with(policy=Policy())) == []


def test_a_required_plugin_that_does_not_load_stops_the_start():
    """It names the hook; without 'require' the plugin is left out as any other."""
    config = {**CONFIG, "plugins": {"require": ["policy"]}}

    ((path, text),) = problems_of(config, host_with(policy=Typo()))

    assert path == "plugins.require[0]"
    assert "unknown hook 'flexchat_before_tool_cal'; did you mean 'flexchat_before_tool_call'?" in text
    assert problems_of(CONFIG, host_with(policy=Typo())) == []


def test_a_required_plugin_that_is_not_installed_stops_the_start():
    ((path, text),) = problems_of({**CONFIG, "plugins": {"require": ["polcy"]}}, host_with(policy=Policy()))

    assert path == "plugins.require[0]"
    assert "no plugin is called 'polcy' (did you mean 'policy'?)" in text


@pytest.mark.parametrize("place", ["FLEXCHAT_BLOCK_PLUGINS", "--no-plugin"])
def test_a_required_plugin_that_is_switched_off_elsewhere_stops_the_start(place):
    host = host_with(policy=Policy(), block={"policy": place})

    assert problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host) == [
        ("plugins.require[0]", f"plugin 'policy' is left out by {place}")
    ]


def test_a_plugin_cannot_be_required_and_blocked():
    """One problem, at one place."""
    config = {**CONFIG, "plugins": {"require": ["policy"], "block": ["mock-2", "policy"]}}

    ((path, text),) = problems_of(config, host_with(policy=Policy(), **{"mock-2": Policy()}))

    assert path == "plugins.require[0]"
    assert "blocked by plugins.block[1]" in text


def test_a_gate_that_does_not_load_stops_the_start_unasked():
    """Also where there is no configuration."""
    host = host_with(policy=Typo(), gate=True)

    ((path, text),) = problems_of(CONFIG, host)
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_model("rehearsal/any", plugins=host)

    assert path == "plugins"
    assert "plugin 'policy' could not be loaded: unknown hook" in text
    assert [problem.text for problem in caught.value.problems] == [text]


def test_a_gate_that_is_required_too_is_one_problem():
    host = host_with(policy=Typo(), gate=True)

    ((path, _),) = problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host)

    assert path == "plugins.require[0]"


def test_a_misspelt_name_among_the_blocked_stops_the_start():
    """It would leave on what was to be off; a name like no other is only noted: it may be installed elsewhere."""
    host = host_with(policy=Policy())

    ((path, text),) = problems_of({**CONFIG, "plugins": {"block": ["polcy"]}}, host)
    problems, notes = check_config({**CONFIG, "plugins": {"block": ["no-such"]}}, host)

    assert path == "plugins.block[0]"
    assert "did you mean 'policy'?" in text
    assert problems == []
    assert [(note.path, note.text) for note in notes] == [
        ("plugins.block[0]", "no plugin is called 'no-such' (installed: mock, policy)")
    ]


async def test_what_a_configuration_blocks_is_off_in_a_host_that_was_made_before():
    """A server's host is made once; its configuration changes."""
    host = host_with(policy=Policy())
    tool = ToolDefinition(
        name="echo",
        description="Echo.",
        parameters={"type": "object"},
        implementation=Implementation(type="mock", settings={"mock_response": 1}),
    )

    async with FlexChat.from_config(CONFIG, tools=[tool], plugins=host) as chat:
        assert (await chat.call_tool("echo", {})).error == "forbidden"
    blocking = {**CONFIG, "plugins": {"block": ["policy"]}}
    async with FlexChat.from_config(blocking, tools=[tool], plugins=host) as chat:
        assert (await chat.call_tool("echo", {})).result == 1


def tool_entry(**changes):
    """An entry of tools.registry that can be used, with changes."""
    implementation = {"type": "mock", "mock_response": 1}
    return {
        "name": "t",
        "description": "T",
        "parameters": {"type": "object"},
        "implementation": implementation,
    } | changes


def with_tools(*entries, **table):
    """A configuration whose rule allows the first of these tools by name."""
    rule = {**CONFIG["responses"][0], "tools": {"allowed_tools": [entries[0]["name"]]}}
    return {**CONFIG, "responses": [rule], "tools": {"registry": [*entries], **table}}


class Ready:
    """A plugin with a ready-made tool that something runs which is not there."""

    def __init__(self, implementation):
        self._implementation = implementation

    @hookimpl
    def flexchat_register_tools(self):
        yield ToolDefinition(
            name="ready", description="R", parameters={"type": "object"}, implementation=self._implementation
        )


UNUSABLE = {
    "Tool parameters must be an object schema": tool_entry(parameters={"type": "array"}),
    "Tool must have name and description": tool_entry(description=""),
    "an entry with an implementation defines a new tool": {"name": "ready", "implementation": {"type": "mock"}},
    "no implementation type is called 'soap'": tool_entry(implementation={"type": "soap"}),
    "Internal handler 'nobody' not found": tool_entry(implementation={"type": "internal", "handler": "nobody"}),
    "no document store is called 'elsewhere'": tool_entry(
        implementation={"type": "internal", "handler": "rag_query", "service": "elsewhere"}
    ),
    "no tool is called 'unknown'": {"name": "unknown"},
    "no implementation type is called 'langchian'": {"name": "ready"},
    "implementation: unknown key 'color'": {"name": "ready2"},
}


def host_for_tools():
    host = host_with(
        ready=Ready(Implementation(type="langchian")),
        ready2=Ready2(Implementation(type="mock", settings={"color": "red"})),
    )
    host.register(internal, "internal")
    return host


class Ready2(Ready):
    @hookimpl
    def flexchat_register_tools(self):
        for tool in super().flexchat_register_tools():
            yield attrs.evolve(tool, name="ready2")


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_tool_that_cannot_be_used_stops_the_start(reason):
    """Its name or its place is told; nothing is offered without it in silence."""
    ((path, text),) = problems_of(with_tools(UNUSABLE[reason]), host_for_tools())

    assert path.startswith("tools.registry[0]")
    assert reason in text


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_tool_that_cannot_be_used_is_left_out_where_the_configuration_says_so(reason):
    """With notes that name it: its own, and one of the rule that asks for it (TC-69)."""
    entry = UNUSABLE[reason]
    config = with_tools(entry, tool_entry(name="other"), on_error="leave out")

    chat = FlexChat.from_config(config, plugins=host_for_tools())

    assert [tool.name for tool in chat.tools.get_registry().list()] == ["other"]
    own, of_rule = chat.notes
    assert own.path == "tools.registry[0]"
    assert own.text.startswith(f"tool '{entry['name']}' is left out: ")
    assert reason in own.text
    assert of_rule.path == "responses[0].tools.allowed_tools[0]"
    assert of_rule.text == f"tool '{entry['name']}' is left out, so it is not offered"
    assert chat.tools.offered_to(chat.config.responses[0]) == ()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, "expected a table, got null"),
        ("calculator", 'expected a table, got the text "calculator"'),
        ({"description": "T", "parameters": {"type": "object"}, "implementation": {"type": "mock"}}, "it has no name"),
        ({"name": "", "description": "T"}, "it has no name"),
        ({"name": 5, "description": "T"}, "it has no name"),
    ],
)
def test_what_is_no_tool_is_left_out_where_the_configuration_says_so(entry, why):
    """The others load (TC-69), and problems of theirs keep their places."""
    tools = {"registry": [entry, tool_entry(name="other")], "on_error": "leave out"}

    chat = FlexChat.from_config({**CONFIG, "tools": tools}, plugins=host_for_tools())

    assert [tool.name for tool in chat.tools.get_registry().list()] == ["other"]
    assert [(note.path, note.text) for note in chat.notes] == [("tools.registry[0]", f"this tool is left out: {why}")]
    tools = {"registry": [entry, tool_entry(color="red")], "on_error": "leave out"}
    ((path, _),) = problems_of({**CONFIG, "tools": tools}, host_for_tools())
    assert path == "tools.registry[1]"


def test_what_is_no_tool_stops_the_start_otherwise():
    assert problems_of({**CONFIG, "tools": {"registry": [None]}}, host_for_tools())


@pytest.mark.parametrize("given", ["function", "definition"])
def test_an_entry_with_a_name_alone_changes_a_tool_given_in_code(given):
    """Its text, its limits, its effect: what the operator says counts."""

    @flexchat.tool
    def send(to: str) -> str:
        """Send."""
        return to

    entry = {"name": "send", "description": "Send a letter.", "timeout_ms": 5, "effect": "read"}
    chat = FlexChat.from_config(
        with_tools(entry), plugins=host_for_tools(), tools=[send if given == "function" else send.definition]
    )

    (found,) = chat.tools.get_registry().list()
    assert (found.description, found.timeout_ms, found.effect) == ("Send a letter.", 5, "read")
    assert chat.tools.offered_to(chat.config.responses[0]) == ("send",)


@pytest.mark.parametrize(
    "looks",
    [
        {"llms": {"robot": {"provider": "OpenAI", "apiKey": "k"}}},
        {"tools": {"registry": [{"name": "t", "description": "T", "type": "soap", "parameters": {"type": "object"}}]}},
    ],
)
def test_configurations_of_the_original_leave_out_what_they_cannot_use(looks):
    """As there: they load as they are (TC-69)."""
    config = {**with_tools(tool_entry(implementation={"type": "soap"})), **looks}
    host = host_with()
    provider = ProviderType(name="openai", config_class=Anything, create=lambda settings: None, tool_formats={})
    host.providers.add("openai", provider, "x")

    problems, notes = check_config(config, host)

    assert not any("soap" in problem.text for problem in problems)
    assert any(note.text.startswith("tool 't' is left out: no implementation type is called 'soap'") for note in notes)


@pytest.mark.parametrize("given", ["ready", Implementation(type="langchian")])
def test_a_tool_given_in_code_that_cannot_be_used_is_refused(given):
    tool = given
    if isinstance(given, Implementation):
        tool = ToolDefinition(name="t", description="T", parameters={"type": "object"}, implementation=given)
    for make in (FlexChat.from_config, lambda config, **rest: FlexChat.from_model("rehearsal/m", **rest)):
        with pytest.raises(ToolDefinitionError, match="no implementation type is called 'langchian'"):
            make(CONFIG, tools=[tool], plugins=host_for_tools())


@attrs.frozen(kw_only=True)
class Anything:
    """Settings of nothing in particular."""

    api_key: str = ""
    fast: bool = False


class Exploding:
    """A plugin all of whose makers raise something that is no error of FlexChat's."""

    @staticmethod
    def _explode(*given):
        raise KeyError("vault")

    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(name="boom", config_class=Anything, create=self._explode, tool_formats={})
        yield ProviderType(
            name="local", config_class=Anything, create=self._explode, tool_formats={}, local_embeddings="mini"
        )

    @hookimpl
    def flexchat_register_document_stores(self):
        yield DocumentStoreType(name="boom", config_class=Anything, create=self._explode)

    @hookimpl
    def flexchat_register_rerankers(self):
        yield RerankerType(name="boom", create=self._explode)

    @hookimpl
    def flexchat_register_conversation_stores(self):
        yield ConversationStoreType(name="boom", config_class=Anything, create=self._explode)

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield ImplementationType(name="boom", settings_class=Anything, run=self._explode, check=self._explode)


def test_what_a_plugin_raises_while_it_is_configured_is_a_problem_of_that_place():
    """All of them at once, and no traceback."""
    config = {
        "llms": {"a": {"provider": "boom", "default_model": "m"}, **CONFIG["llms"]},
        "responses": CONFIG["responses"],
        "stores": {
            "s": {"provider": "boom", "rerank": "boom", "embedding": {"llm": "local"}},
        },
        "conversations": {"provider": "boom"},
        "tools": {"registry": [tool_entry(implementation={"type": "boom"})]},
    }

    found = problems_of(config, host_with(exploding=Exploding()))

    assert all("KeyError: 'vault'" in text for _, text in found)
    assert {path for path, _ in found} == {
        "llms.a",
        "stores.s",
        "stores.s.rerank",
        "stores.s.embedding",
        "conversations",
        "tools.registry[0].implementation",
    }


def test_problems_of_all_layers_are_told_at_once():
    """Wrong types, validators, what opening finds, and names that do not exist."""
    config = {
        "llms": {
            "gpt": {
                "provider": "openai",
                "api_key": "k",
                "timeout_s": "60",
                "idle_timeout_s": -1,
                "connect_timeout_s": -1,
                "base_url": "nowhere",
                "default_model": "m",
            },
            "local": {"provider": "ollama", "base_url": "http://u:p@h/", "retries": 99},
        },
        "responses": [{"llm": "gpt", "max_tokens": 0, "tools": {"allowed_tools": ["zz"]}}],
        "embedding": {"llm": "gqt"},
        "stores": {"s": {"provider": "nothing"}},
        "conversations": {"provider": "nowhere"},
        "tools": {"registry": [tool_entry(parameters={"type": "array"})]},
    }

    problems, _ = check_config(config)

    assert {problem.path for problem in problems} == {
        "llms.gpt.timeout_s",
        "llms.gpt.idle_timeout_s",
        "llms.gpt.connect_timeout_s",
        "llms.gpt.base_url",
        "llms.local.base_url",
        "llms.local.retries",
        "responses[0].max_tokens",
        "responses[0].tools.allowed_tools[0]",
        "stores.s.provider",
        "conversations.provider",
        "tools.registry[0]",
    }


class Rival:
    """A plugin that offers one of everything, all called "same"."""

    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield ToolHandler(kind="internal", name="same", call=lambda params, context: None)

    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(
            name="same", config_class=Anything, create=lambda settings: None, tool_formats={}, local_embeddings="mini"
        )

    @hookimpl
    def flexchat_register_document_stores(self):
        yield DocumentStoreType(name="same", config_class=Anything, create=lambda *given: None)

    @hookimpl
    def flexchat_register_rerankers(self):
        yield RerankerType(name="same", create=lambda: None)

    @hookimpl
    def flexchat_register_conversation_stores(self):
        yield ConversationStoreType(name="same", config_class=Anything, create=lambda *given: None)

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield ImplementationType(name="same", settings_class=Anything, run=lambda *given: None)

    @hookimpl
    def flexchat_register_tools(self):
        implementation = Implementation(type="mock", settings={"mock_response": 1})
        yield ToolDefinition(name="same", description="S", parameters={"type": "object"}, implementation=implementation)


CONTESTED = {
    "llms.a.provider": {"llms": {**CONFIG["llms"], "a": {"provider": "same"}}},
    "stores.s.provider": {"stores": {"s": {"provider": "same"}}},
    "stores.s.rerank": {"stores": {"s": {"provider": "memory", "rerank": "same"}}},
    "embedding.llm": {"embedding": {"llm": "same"}},
    "conversations.provider": {"conversations": {"provider": "same"}},
    "tools.registry[0].implementation.type": {"tools": {"registry": [tool_entry(implementation={"type": "same"})]}},
    "tools.registry[0].implementation": {
        "tools": {"registry": [tool_entry(implementation={"type": "internal", "handler": "same"})]}
    },
    "tools.registry[0]": {"tools": {"registry": [{"name": "same"}]}},
}


@pytest.mark.parametrize("path", CONTESTED)
def test_what_two_plugins_offer_is_said_where_a_configuration_needs_it(path):
    """Not that nobody offers it; with what to do."""
    host = host_with(one=Rival(), two=Rival())
    host.register(internal, "internal")

    ((where, text),) = problems_of({**CONFIG, **CONTESTED[path]}, host)

    assert where == path
    assert "is offered by two plugins, one and two; block one of them" in text
    assert "a tool of your own" not in text


class Speaking:
    """A plugin whose provider is told tools in a format of its own, by another plugin's name for one."""

    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(
            name="speaking", config_class=Anything, create=lambda settings: None, tool_formats={"rehearsal": list}
        )


def test_a_tool_format_that_two_plugins_offer_is_said_where_a_rule_uses_tools():
    """The last one loaded used to win."""
    host = host_with(speaking=Speaking())

    ((where, text),) = problems_of(with_tools(tool_entry()), host)

    assert where == "responses[0].llm"
    assert "tool format 'rehearsal' is offered by two plugins, mock and speaking" in text
    assert problems_of(CONFIG, host) == []


@pytest.mark.parametrize("kind", ["mock", "internal", "python"])
@pytest.mark.parametrize(("own", "expected"), [({}, 7), ({"timeout_ms": 9}, 9)])
def test_a_timeout_in_the_implementation_is_the_tools(kind, own, expected):
    """For every implementation type; the tool's own goes before it."""
    rest = {
        "mock": {"mock_response": 1},
        "internal": {"handler": "rag_query"},
        "python": {"function": f"{__name__}:roll"},
    }
    entry = tool_entry(implementation={"type": kind, "timeout_ms": 7, **rest[kind]}, **own)
    host = host_with()
    host.register(internal, "internal")

    chat = FlexChat.from_config(with_tools(entry), plugins=host)

    assert chat.tools.get_registry().get("t").timeout_ms == expected


def roll():
    """Return a number."""
    return 4


@attrs.frozen(kw_only=True)
class Glossary:
    """The company's own terms."""

    file: str = attrs.field(metadata={"help": "Where they are."})
    most: int = attrs.field(default=10, metadata={"min": 1})
    pin: str = attrs.field(default="", metadata={"secret": True})


class TablePlugin:
    """A table of its own, and checks."""

    def __init__(self, *checks, name="glossary", load=lambda: Glossary, **form):
        self.checks, self.name, self.load, self.form = checks, name, load, form

    @hookimpl
    def flexchat_register_config_tables(self):
        return [ConfigTable(name=self.name, load=self.load, summary="Words.", **self.form)]

    @hookimpl
    def flexchat_register_checks(self):
        return self.checks


def with_glossary(**table):
    return {**CONFIG, "glossary": table}


def test_the_table_of_a_plugin_is_read_like_cores():
    """An instance of its class; without the table there is none, and its class is not even loaded."""
    loaded = []
    host = host_with(words=TablePlugin(load=lambda: loaded.append(1) or Glossary))

    assert FlexChat.from_config(CONFIG, plugins=host).config.tables == {}
    assert loaded == []
    chat = FlexChat.from_config(with_glossary(file="w.txt", pin="swordfish"), plugins=host)

    assert chat.config.tables == {"glossary": Glossary(file="w.txt", pin="swordfish")}
    assert chat.mask("the swordfish") == "the ***"


@pytest.mark.parametrize(
    ("table", "path", "text"),
    [
        ({"file": "w", "mots": 3}, "glossary", "unknown key 'mots' (did you mean 'most'?)"),
        ({"file": "w", "most": 0}, "glossary.most", "expected a number of at least 1, got the number 0"),
        ({}, "glossary.file", "required key missing"),
        ({"file": "w", "pin": 12345}, "glossary.pin", "expected text, got a number (not shown here)"),
        (3, "glossary", "expected a table, got the number 3"),
    ],
)
def test_what_is_wrong_with_a_plugins_table_is_said_where_it_stands(table, path, text):
    """As of core's own tables."""
    (found,) = problems_of({**CONFIG, "glossary": table}, host_with(words=TablePlugin()))

    assert found[0] == path
    assert found[1].startswith(text)


def test_named_tables_of_a_plugin_are_read_into_a_dict():
    """Problems of all of them are found at once, each under its name."""
    host = host_with(words=TablePlugin(is_named=True))
    config = {**CONFIG, "glossary": {"legal": {"file": "a.txt"}, "it": {"file": "b.txt"}}}

    chat = FlexChat.from_config(config, plugins=host)

    assert chat.config.tables == {"glossary": {"legal": Glossary(file="a.txt"), "it": Glossary(file="b.txt")}}
    wrong = {**CONFIG, "glossary": {"legal": {"fiel": "a.txt"}, "it": 3}}
    paths = [path for path, _ in problems_of(wrong, host)]
    assert paths == ["glossary.legal.file", "glossary.legal", "glossary.it"]
    ((path, text),) = problems_of({**CONFIG, "glossary": [1]}, host)
    assert path == "glossary"
    assert text.startswith("expected a table")


def test_a_list_of_tables_of_a_plugin_is_read_into_a_tuple():
    host = host_with(words=TablePlugin(is_list=True))
    config = {**CONFIG, "glossary": [{"file": "a.txt"}, {"file": "b.txt", "pin": "swordfish"}]}

    chat = FlexChat.from_config(config, plugins=host)

    assert chat.config.tables == {"glossary": (Glossary(file="a.txt"), Glossary(file="b.txt", pin="swordfish"))}
    assert chat.mask("the swordfish") == "the ***"


@pytest.mark.parametrize(
    ("tables", "path", "text"),
    [
        ([{"file": "w"}, {"file": "w", "mots": 3}], "glossary[1]", "unknown key 'mots' (did you mean 'most'?)"),
        ([{"file": "w", "most": 0}], "glossary[0].most", "expected a number of at least 1"),
        ([3], "glossary[0]", "expected a table, got the number 3"),
        ({"file": "w"}, "glossary", "expected a list of tables, got a table; write [[glossary]]"),
    ],
)
def test_what_is_wrong_with_a_list_of_tables_is_reported_where_it_stands(tables, path, text):
    (found,) = problems_of({**CONFIG, "glossary": tables}, host_with(words=TablePlugin(is_list=True)))

    assert found[0] == path
    assert found[1].startswith(text)


def test_a_table_that_forbids_something_keeps_a_chat_from_starting_without_its_plugin():
    """What it forbids would happen."""
    ((path, text),) = problems_of({**CONFIG, "approvals": [{"ask": "always"}]}, host_with())

    assert path == "approvals"
    assert text.startswith("this table is not read: ")
    assert "flexchat-approvals" in text


def test_a_problem_in_a_plugins_table_has_file_and_line(tmp_path):
    """And a written secret is noted."""
    file = tmp_path / "flexchat.toml"
    file.write_text(
        '[llms.robot]\nprovider = "rehearsal"\n[[responses]]\nllm = "robot"\nmodel = "m"\n'
        '[glossary]\nfile = "w"\nmots = 3\napi_token = "a-very-long-secret"\n'
    )

    problems, notes = check_config(file, host_with(words=TablePlugin()))

    assert [(p.line, p.path) for p in problems] == [(8, "glossary"), (9, "glossary")]
    assert [(n.line, n.path) for n in notes] == [(9, "glossary.api_token")]
    assert "${GLOSSARY_API_TOKEN}" in notes[0].text


def test_a_misspelt_table_of_a_plugin_is_suggested():
    """The names of plugins' tables are known as core's are."""
    assert problems_of({**CONFIG, "glosary": {"file": "w"}}, host_with(words=TablePlugin())) == [
        ("", "unknown key 'glosary' (did you mean 'glossary'?)")
    ]


def test_a_table_that_two_plugins_read_is_read_by_neither():
    """One has to be blocked."""
    host = host_with(words=TablePlugin(), more=TablePlugin())

    ((path, text),) = problems_of(with_glossary(file="w"), host)

    assert path == "glossary"
    assert text.startswith("config table 'glossary' is offered by two plugins, words and more; block one of them")


def test_no_plugin_takes_a_table_of_cores():
    """It is left out and says so."""
    report = host_with(words=TablePlugin(name="tools")).reports[-1]

    assert report.status == "failed"
    assert "'tools' is FlexChat's own" in report.reason
    assert own_keys(Config) == CORE_TABLES


def test_a_table_whose_plugin_is_broken_says_so():
    """Not that its name is misspelt."""

    class Broken(TablePlugin):
        @hookimpl
        def flexchat_register_tools(self):
            raise OSError("no disk")

    ((path, text),) = problems_of(with_glossary(file="w"), host_with(words=Broken()))

    assert path == "glossary"
    assert text == "no plugin reads this table: plugin 'words' failed: registering failed: OSError: no disk"


def test_checks_tell_a_configuration_what_they_find():
    """Those of the start keep it from starting; the others are run where somebody asks."""

    def at_start(read):
        if read.config.tables["glossary"].file == "none":
            read.problem(("glossary", "file"), "there is no such file")

    def asked(read):
        read.note(("glossary",), "it is old")
        read.add(Problem(path="", text="is empty", source="words.txt", line=1))

    plugin = TablePlugin(ConfigCheck(name="a", run=at_start, at_start=True), ConfigCheck(name="b", run=asked))
    host = host_with(words=plugin)

    FlexChat.from_config(with_glossary(file="w"), plugins=host)
    with pytest.raises(ConfigError, match="there is no such file"):
        FlexChat.from_config(with_glossary(file="none"), plugins=host)
    problems, notes = check_config(with_glossary(file="none"), host)

    assert [str(problem) for problem in problems] == ["glossary.file: there is no such file", "words.txt:1: is empty"]
    assert [str(note) for note in notes] == ["glossary: it is old"]


def test_a_check_that_breaks_is_a_problem():
    """It names the plugin; a check of blocked plugins does not run."""

    def breaks(read):
        raise SystemExit("enough")

    host = host_with(words=TablePlugin(ConfigCheck(name="words", run=breaks)))

    ((problem,), _) = check_config(CONFIG, host)
    assert str(problem).startswith("plugin 'words': its check 'words' failed: ")
    assert "SystemExit: enough" in str(problem)
    assert check_config({**CONFIG, "plugins": {"block": ["words"]}}, host)[0] == []


class Sum:
    """A plugin whose tool handler "builtin sum" and tool "sum" answer with a word of their own."""

    def __init__(self, word):
        self.word = word

    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield ToolHandler(kind="builtin", name="sum", call=lambda params, context: self.word)

    @hookimpl
    def flexchat_register_tools(self):
        implementation = Implementation(type="builtin", settings={"handler": "sum"})
        yield ToolDefinition(
            name="sum", description=self.word, parameters={"type": "object"}, implementation=implementation
        )


SUM = {**CONFIG, "tools": {"registry": [{"name": "sum"}]}}


@pytest.mark.parametrize(
    ("prefer", "word"), [(["own"], "own"), (["usual"], "usual"), (["own", "usual"], "own"), (["usual", "own"], "usual")]
)
async def test_a_preferred_plugin_has_what_another_offers_too(prefer, word):
    """In whatever order they are loaded; the first that is preferred."""
    host = host_with(own=Sum("own"), usual=Sum("usual"))
    host.register(builtin, "builtin")

    async with FlexChat.from_config({**SUM, "plugins": {"prefer": prefer}}, plugins=host) as chat:
        assert (await chat.call_tool("sum", {})).result == word


def test_what_is_preferred_leaves_the_host_as_it_was():
    """Several chats share it: what one config prefers, the next does not."""
    host = host_with(own=Sum("own"), usual=Sum("usual"))
    host.register(builtin, "builtin")
    FlexChat.from_config({**SUM, "plugins": {"prefer": ["own"]}}, plugins=host)

    ((_, text),) = problems_of(SUM, host)

    assert "is offered by two plugins, own and usual" in text
    assert "plugins.prefer" in text


def test_a_preferred_plugin_that_is_not_there_is_told():
    """A typing error is an error; one that is not installed is a note."""
    host = host_with(usual=Sum("usual"))
    host.register(builtin, "builtin")

    assert ("plugins.prefer[0]", "no plugin is called 'usul' (did you mean 'usual'?)") in [
        (path, text.split(" (installed")[0])
        for path, text in problems_of({**SUM, "plugins": {"prefer": ["usul"]}}, host)
    ]


def test_a_step_is_replaced_by_nobody():
    """What it forbids would happen."""

    class Forbids:
        name, stage = "forbids", "authorize"

        async def __call__(self, call, rest):
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    host = host_with(one=Forbids(), two=Forbids())

    ((path, text),) = problems_of({**CONFIG, "plugins": {"prefer": ["two"]}}, host)

    assert (path, "step 'forbids' is offered by two plugins" in text) == ("plugins", True)


@attrs.frozen(kw_only=True)
class DiceSettings:
    """How many sides a die has."""

    sides: int = attrs.field(metadata={"min": 2})
    key: str = attrs.field(default="", metadata={"secret": True})


class Dice:
    """A handler with settings."""

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield builtin.flexchat_register_implementation_types().__next__()

    @hookimpl
    def flexchat_register_tool_handlers(self):
        def roll(params, context):
            return [context.settings.sides, context.settings.key.upper()]

        yield ToolHandler(kind="builtin", name="roll", call=roll, settings_class=DiceSettings)
        yield ToolHandler(kind="builtin", name="plain", call=lambda params, context: context.settings)


def a_tool(**implementation):
    tool = {"name": "roll", "description": "Roll.", "parameters": {"type": "object"}}
    return {**CONFIG, "tools": {"registry": [{**tool, "implementation": {"type": "builtin", **implementation}}]}}


async def test_a_handler_gets_its_settings():
    """From the implementation table; also where the tool was made in code. One without a class gets None."""
    host = host_with(dice=Dice())
    made = ToolDefinition(
        name="two",
        description="Roll.",
        parameters={"type": "object"},
        implementation=Implementation(type="builtin", settings={"handler": "roll", "sides": 2}),
    )
    config = a_tool(sides=20, key="hushhush", timeout_ms=500)
    async with FlexChat.from_config(config, plugins=host, tools=[made]) as chat:
        results = [await chat.tools.get_executor().execute(name, {}) for name in ("roll", "two")]
    async with FlexChat.from_config(a_tool(handler="plain"), plugins=host) as other:
        plain = await other.tools.get_executor().execute("roll", {})

    assert [result.result for result in results] == [[20, "HUSHHUSH"], [2, ""]]
    assert chat.mask("the hushhush") == "the ***"
    assert (plain.success, plain.result) == (True, None)


@pytest.mark.parametrize(
    ("settings", "path", "text"),
    [
        ({}, "tools.registry[0].implementation.sides", "required key missing"),
        ({"sides": 1}, "tools.registry[0].implementation.sides", "expected a number of at least 2, got the number 1"),
        ({"sides": 6, "sids": 1}, "tools.registry[0].implementation", "unknown key 'sids' (did you mean 'sides'?)"),
        ({"sides": 6, "handler": "plain"}, "tools.registry[0].implementation", "unknown key 'sides'"),
    ],
)
def test_what_is_wrong_with_a_handlers_settings_is_said_where_it_stands(settings, path, text):
    """Once; of a handler without settings every key is unknown."""
    ((where, said),) = problems_of(a_tool(**settings), host_with(dice=Dice()))

    assert (where, said[: len(text)]) == (path, text)
