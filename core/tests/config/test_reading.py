"""From a file or a mapping to a Config, with everything that is wrong at once."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from flexchat.config.model import Config
from flexchat.config.reading import read_config
from flexchat.errors import ConfigError, Problem
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

CORE = ("provider", "default_model", "description", "retries", "retry_delay_ms")


@attrs.frozen(kw_only=True)
class OpenAIish:
    api_key: str | None = attrs.field(default=None, metadata={"secret": True})
    base_url: str = "https://example.com"
    timeout_s: float = attrs.field(default=60.0, metadata={"above": 0})


BROKEN_TOML = """\
[llms.gpt]
provider = "openai"
api_key = "${OPENAI_API_KEY}"
default_model = "m"
timeout_s = "60"
base_uri = "http://x"

[tools]
max_iterations = 0

[[tools.registry]]
name = "calculator"

[[responses]]
llm = "gtp"
match = { intent = "x" }
modle = "y"

[[responses]]
llm = "gpt"
match = { topic_contains = "z" }
[responses.tools]
enabled = "yes"
allowed_tools = [
  "calculator",
  "calculater",
]

[[responses]]
llm = "gpt"
match.topic = "q"
tools.allowed_tools = []
"""

BROKEN_JSON = """\
{
  "llms": {
    "gpt": {
      "provider": "openai",
      "api_key": "${OPENAI_API_KEY}",
      "default_model": "m",
      "timeout_s": "60",
      "base_uri": "http://x"
    }
  },
  "tools": {
    "max_iterations": 0,
    "registry": [{"name": "calculator"}]
  },
  "responses": [
    {
      "llm": "gtp",
      "match": {"intent": "x"},
      "modle": "y"
    },
    {
      "llm": "gpt",
      "match": {"topic_contains": "z"},
      "tools": {
        "enabled": "yes",
        "allowed_tools": [
          "calculator",
          "calculater"
        ]
      }
    },
    {
      "llm": "gpt",
      "match": {"topic": "q"},
      "tools": {"allowed_tools": []}
    }
  ]
}
"""

EXPECTED = [
    (
        "llms.gpt.api_key: environment variable OPENAI_API_KEY is not set: "
        "export it first, or store it with flexchat keys set OPENAI_API_KEY "
        "(for the text itself write $${OPENAI_API_KEY})"
    ),
    'llms.gpt.timeout_s: expected a number, got the text "60"; leave out the quotes',
    "llms.gpt: unknown key 'base_uri' (did you mean 'base_url'?)",
    "tools.max_iterations: expected a number from 1 to 50, got the number 0; leave the key out for the default",
    "responses: nothing would answer a message that fits no rule: add a rule without 'match' at the end",
    "responses[0].llm: no LLM is called 'gtp' (did you mean 'gpt'?); configured: gpt",
    "responses[0]: unknown key 'modle' (did you mean 'model'?)",
    'responses[1].tools.enabled: expected true or false, got the text "yes"',
    (
        "responses[1].tools.allowed_tools[1]: no tool in tools.registry is called 'calculater' "
        "(did you mean 'calculator'?); configured: calculator"
    ),
    (
        "responses[2].tools.allowed_tools: an empty list is ambiguous: leave the key out to offer all tools, "
        "or write enabled = false for none"
    ),
]
TOML_LINES = [3, 5, 6, 9, 14, 15, 17, 23, 26, 32]
JSON_LINES = [5, 7, 8, 12, 15, 17, 19, 25, 28, 35]


@pytest.mark.parametrize(
    ("name", "text", "lines"), [("chat.toml", BROKEN_TOML, TOML_LINES), ("chat.json", BROKEN_JSON, JSON_LINES)]
)
def test_everything_wrong_with_a_file_is_told_at_once_with_its_line(tmp_path, monkeypatch, name, text, lines):
    """Unknown keys, a variable that is not set, wrong scalars, an unknown LLM, no fallback, a limit of 0 (C8), an
    empty list of tools (C23): core's and the plugin's problems together, in the order of the file.
    """
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)

    reading = read_config(name)
    for place, _ in reading.tables("llms"):
        reading.settings(place, CORE, OpenAIish)
    with pytest.raises(ConfigError) as caught:
        reading.finish()

    expected = [f"{name}:{line}: {problem}" for line, problem in zip(lines, EXPECTED, strict=True)]
    assert str(caught.value).splitlines() == expected
    assert reading.config is None
    assert [note.path for note in reading.notes] == ["responses[0].match.intent"]


# TC-17 to TC-26: the specification's sample tools and rules, with the services its appendix leaves out.
WEATHER = {
    "name": "get_weather",
    "description": "Get current weather for a location",
    "type": "function",
    "handler": "weather",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["location"],
    },
    "implementation": {"type": "mock", "mock_response": {"temperature": 22, "condition": "sunny"}},
}
CALCULATE = {
    "name": "calculate",
    "description": "Evaluate",
    "type": "function",
    "handler": "calculator",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
    "implementation": {"type": "builtin", "handler": "math_eval"},
}
SEARCH = {
    "name": "search_documents",
    "description": "Search",
    "type": "function",
    "handler": "rag_search",
    "parameters": {"type": "object", "properties": {"max_results": {"type": "integer", "default": 5}}},
    "implementation": {"type": "internal", "handler": "rag_query"},
}
SPECIFIED: dict[str, Any] = {
    "llms": {
        "openai": {"provider": "openai", "api_key": "k"},
        "ollama": {"provider": "ollama", "base_url": "http://127.0.0.1:1"},
    },
    "stores": {"technical_docs": {"provider": "memory"}},
    "tools": {
        "enabled": True,
        "max_iterations": 5,
        "default_timeout_ms": 30000,
        "registry": [WEATHER, CALCULATE, SEARCH],
    },
    "responses": [
        {
            "match": {"intent_regexp": "/(weather|forecast)/"},
            "llm": "openai",
            "model": "gpt-4o",
            "prompt": "You are a helpful weather assistant.\n\nUser: {{user_message}}",
            "tools": {"enabled": True, "allowed_tools": ["get_weather", "calculate"], "max_iterations": 3},
        },
        {
            "match": {"service": "technical_docs"},
            "llm": "ollama",
            "model": "llama3.2:3b",
            "tools": {"enabled": True, "allowed_tools": ["search_documents"], "max_iterations": 2},
        },
        {"llm": "openai", "model": "gpt-4o"},
    ],
}


def test_the_specifications_configuration_is_read_as_it_stands():
    """TC-17, TC-18, TC-19, TC-20, TC-21, TC-23, TC-24, TC-25, TC-26: samples of all three implementation types."""
    reading = read_config(SPECIFIED)
    config = reading.finish()

    assert reading.notes == []
    assert [t.name for t in config.tools.registry] == ["get_weather", "calculate", "search_documents"]
    assert [(t.implementation.type, dict(t.implementation.settings)) for t in config.tools.registry] == [
        ("mock", {"mock_response": {"temperature": 22, "condition": "sunny"}}),
        ("builtin", {"handler": "math_eval"}),
        ("internal", {"handler": "rag_query"}),
    ]
    assert config.tools.registry[0].parameters == WEATHER["parameters"]
    assert config.responses[0].tools.max_iterations == 3
    assert config.responses[1].tools.allowed_tools == ("search_documents",)
    assert config.llms["openai"].settings == {"api_key": "k"}


def test_what_is_not_said_has_the_specified_defaults():
    """TC-17, TC-24, TC-68, TC-70, DS-4, DS-15, DS-16: no tools section at all is no error."""
    config = read_config({"llms": {"a": {"provider": "x"}}, "responses": [{"llm": "a", "model": "m"}]}).finish()

    assert (config.tools.enabled, config.tools.registry) == (None, ())
    assert (config.tools.max_iterations, config.tools.default_timeout_ms) == (5, 30_000)
    assert config.responses[0].tools is None
    assert config.responses[0].temperature is None


@pytest.mark.parametrize("limit", [0, -1, 51])
def test_a_limit_of_iterations_must_be_1_to_50(limit):
    """C8: in [tools] and in a rule."""
    data = copy.deepcopy(SPECIFIED)
    data["tools"]["max_iterations"] = data["responses"][0]["tools"]["max_iterations"] = limit

    paths = [p.path for p in read_config(data).problems if "1 to 50" in p.text]

    assert sorted(paths) == ["responses[0].tools.max_iterations", "tools.max_iterations"]


NODE = {
    "chat only": {
        "comment": "one Ollama",
        "llms": {"local": {"provider": "ollama", "baseUrl": "http://localhost:11434", "timeout": 60000}},
        "responses": [{"llm": "local", "model": "llama3.2:3b", "prompt": "Be brief.", "max_tokens": 500}],
    },
    "retrieval with two services, intents and an embedding preset": {
        "llms": {
            "chatgpt": {"provider": "openai", "apiKey": "${OPENAI_KEY}", "retries": 3, "retryDelay": 1000},
            "local": {"provider": "Ollama", "base_url": "http://localhost:11434", "embeddingModel": "nomic"},
        },
        "embedding": {"llm": "local", "model": "nomic-embed-text"},
        "stores": {
            "docs": {
                "provider": "chromadb-wrapper",
                "url": "http://localhost:5006",
                "match_threshold": 0.25,
                "partial_threshold": 0.5,
                "intent_identifier": {"llm": "local"},
            },
            "pinned": {
                "provider": "chromadb-wrapper",
                "url": "http://localhost:5007",
                "collection": "manuals",
                "embedding": {"llm": "local", "model": "x"},
            },
        },
        "topic": {"provider": {"llm": "local", "model": "qwen"}},
        "intent": {
            "provider": {"llm": "chatgpt", "model": "gpt-4o-mini"},
            "detection": {"support": "The user wants help", "comment": "The user comments"},
        },
        "responses": [
            {
                "match": {"rag_results": "any", "service": "docs"},
                "llm": "local",
                "model": "m",
                "prompt": "{{rag_context}}",
            },
            {"match": {"collection_contains": "man", "intent": "support"}, "llm": "chatgpt", "model": "m"},
            {"_note": "fallback", "match": None, "llm": "chatgpt", "model": "m", "max_tokens": 300},
        ],
    },
    "tools by name": {
        "llms": {"gemini": {"provider": "Gemini", "apiKey": "${GEMINI_KEY}", "maxTokens": 1000, "temperature": 0.7}},
        "tools": {
            "apply_globally": False,
            "max_iterations": 5,
            "registry": [
                {"name": "calculator", "description": "Sums"},
                {"name": "get_current_datetime"},
                {"name": "generate_uuid"},
            ],
        },
        "responses": [
            {
                "match": {"intent_regexp": "/calc|time/i"},
                "llm": "gemini",
                "model": "gemini-2.0-flash",
                "tools": {"enabled": True, "allowed_tools": ["calculator", "generate_uuid"], "max_iterations": 3},
            },
            {"llm": "gemini", "model": "gemini-2.0-flash"},
        ],
    },
    "flat definitions": {
        "llms": {"a": {"provider": "openai", "api_key": "${OPENAI_KEY}"}},
        "tools": {
            "registry": [
                {
                    "name": "get_weather",
                    "description": "d",
                    "type": "mock",
                    "parameters": {"type": "object"},
                    "mock_response": {"_raw": 1},
                },
                {
                    "name": "sum",
                    "description": "d",
                    "type": "builtin",
                    "handler": "math_eval",
                    "parameters": {"type": "object"},
                },
            ]
        },
        "responses": [{"llm": "a", "model": "m", "tools": {"enabled": True}}],
    },
}


@pytest.mark.parametrize("name", NODE)
def test_configurations_of_the_node_original_load(tmp_path, name):
    """C7, C8, C9: the kinds of example it ships with, in our own words; every one is read without a problem."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(NODE[name], indent=2))

    reading = read_config(path, environ={"OPENAI_KEY": "sk-12345678", "GEMINI_KEY": "g-12345678"})

    assert [str(p) for p in reading.problems] == []
    assert isinstance(reading.finish(), Config)
    assert all(note.line for note in reading.notes)


def test_a_flat_tool_of_the_node_original_keeps_its_response(tmp_path):
    """C9."""
    config = read_config(NODE["flat definitions"]).finish()

    assert config.tools.registry[0].implementation.settings == {"mock_response": {"_raw": 1}}
    assert config.tools.registry[1].implementation.type == "builtin"
    assert config.tools.registry[1].handler == "math_eval"


def test_a_problem_is_told_in_the_words_of_the_file(tmp_path):
    """What was written as timeout of a Node configuration is not reported as timeout_s."""
    path = tmp_path / "c.json"
    path.write_text(
        '{"llms": {"a": {"provider": "openai",\n"timeout": "soon"}},\n"tools": {"registry": [\n'
        '{"name": "w", "type": "mock",\n"mokc_response": 1}]}, "responses": [{"llm": "a", "model": "m"}]}'
    )
    reading = read_config(path)

    @attrs.frozen
    class Mock:
        mock_response: Any = None

    reading.settings(("llms", "a"), CORE, OpenAIish)
    reading.settings(("tools", "registry", 0, "implementation"), ("type",), Mock)

    assert [(p.line, p.path, p.text) for p in reading.problems] == [
        (2, "llms.a.timeout", 'expected a number, got the text "soon"'),
        (5, "tools.registry[0].implementation", "unknown key 'mokc_response' (did you mean 'mock_response'?)"),
    ]


def test_placeholders_are_the_operators_business(tmp_path):
    """A file's are replaced from the environment; those of a mapping only if an environment is given."""
    data = {"llms": {"a": {"provider": "x", "base_url": "${WHERE}"}}, "responses": [{"llm": "a", "model": "m"}]}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(data))
    environ = {"WHERE": "http://there"}

    assert read_config(data).finish().llms["a"].settings == {"base_url": "${WHERE}"}
    assert read_config(data, environ=environ).finish().llms["a"].settings == {"base_url": "http://there"}
    assert read_config(path, environ=environ).finish().llms["a"].settings == {"base_url": "http://there"}


def test_what_was_read_is_taken_anew_without_what_was_added_since(tmp_path):
    """One use leaves nothing to the next; the file is not read again."""
    path = tmp_path / "c.toml"
    path.write_text(
        '[llms.a]\nprovider = "x"\n[[responses]]\nllm = "a"\nmodel = "m"\ntools = { allowed_tools = ["t"] }\n'
    )
    first = read_config(path)
    path.unlink()
    first.problem(("llms", "a"), "a plugin found this")
    first.note(("llms", "a"), "and this")

    again = read_config(first)

    assert [problem.text for problem in again.problems] == [first.problems[0].text]
    assert "'t'" in first.problems[0].text
    assert read_config(first, tools=["t"]).problems == [], "names given in code count from then on"
    assert again.notes == []
    assert (again.path, again.digest) == (path, first.digest)


def test_the_processes_environment_is_used_for_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXCHAT_TEST_WHERE", "http://there")
    path = tmp_path / "c.toml"
    path.write_text(
        '[llms.a]\nprovider = "x"\nbase_url = "${FLEXCHAT_TEST_WHERE}"\n[[responses]]\nllm = "a"\nmodel = "m"\n'
    )

    assert read_config(path).finish().llms["a"].settings == {"base_url": "http://there"}


def test_no_problem_shows_a_secret():
    """Not those of the environment, not those written out, not those only a plugin knows to be secret."""

    @attrs.frozen
    class Mine:
        pass_phrase: str = attrs.field(default="", metadata={"secret": True})
        port: int = 0
        api_key: int = 0

    data = {
        "llms": {
            "a": {"provider": "x", "port": "${PORT}", "api_key": "written-secret", "pass_phrase": "plugin-secret"}
        },
        "responses": [{"llm": "a", "model": "m", "max_tokens": "${PORT}"}],
    }
    reading = read_config(data, environ={"PORT": "environment-secret"})
    reading.settings(("llms", "a"), CORE, Mine)
    for secret in ("environment-secret", "written-secret", "plugin-secret"):
        reading.problem(("llms", "a"), f"could not log in with {secret}")
        reading.note(("llms", "a"), f"logged in with {secret}")

    said = "\n".join(map(str, (*reading.problems, *reading.notes)))

    assert len(reading.problems) == 4
    assert "secret" not in said.replace("(not shown here)", "")
    assert reading.secrets == {"environment-secret", "written-secret", "plugin-secret"}


def test_tables_of_any_shape_are_walked():
    """Malformed ones are passed over: they are reported already."""
    reading = read_config({"llms": {"a": {"provider": "x"}, "b": 3}, "tools": {"registry": [{"name": "n"}, "x"]}})

    assert [place for place, _ in reading.tables("llms")] == [("llms", "a")]
    assert [place for place, _ in reading.tables("tools", "registry")] == [("tools", "registry", 0)]
    assert list(reading.tables("stores")) == []
    assert list(reading.tables("llms", "b")) == []
    assert list(reading.tables("tools", "registry", "x", 0)) == []


def test_a_plugins_settings_are_structured_below_their_place():
    """One that fits is returned; core's keys are not given to the plugin."""
    reading = read_config({"llms": {"a": {"provider": "x", "retries": 3, "timeout_s": 5}}, "responses": [{"llm": "a"}]})

    assert reading.settings(("llms", "a"), CORE, OpenAIish) == OpenAIish(timeout_s=5.0)


TOML_PIECES = st.sampled_from(
    """\
[llms.a]|provider = "x"|[[responses]]|llm = "a"|model = "${M}"|match = {}|[tools]|enabled = 1|registry = [{}]|[llms]|
max_iterations = 1979-05-27|[responses.tools]|allowed_tools = []|a = 1|comment = 1|temperature = nan|name = "n"|
[[tools.registry]]|type = "mock"|base_url = "${"|timeout = 5""".replace("\n", "").split("|")
).map(lambda line: line + "\n")


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(TOML_PIECES, max_size=12).map("".join) | st.text(max_size=60) | st.binary(max_size=60))
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_any_file_is_either_read_or_refused_with_problems(tmp_path_factory, suffix, content):
    """Never another error than ConfigError, and never one without a reason."""
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))

    problems: tuple[Problem, ...] = ()
    config = None
    try:
        reading = read_config(path, environ={})
        for place, _ in reading.tables("llms"):
            reading.settings(place, CORE, OpenAIish)
        config = reading.finish()
    except ConfigError as error:
        problems = error.problems

    assert bool(problems) == (config is None)
    assert all(p.source == str(path) and p.text for p in problems)


def mutations(value: Any, place=()):
    """Yield every place of a configuration."""
    yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from mutations(item, (*place, key))


PLACES = [place for place in mutations(SPECIFIED) if place]
ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", [], {}, [1], {"a": 1}, [[]], [{}], "${X}", 10**30, float("nan")]
)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(PLACES), ODD)
def test_one_odd_value_anywhere_is_either_fine_or_a_problem(place, odd):
    """Whatever stands at whatever place of a good configuration: no other error, and a path with every problem."""
    data = copy.deepcopy(SPECIFIED)
    parent: Any = data
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = odd

    reading = read_config(data, environ={})

    assert (reading.config is not None) or reading.problems
    assert all(problem.path for problem in reading.problems)


def test_the_model_of_a_configuration_is_light():
    """Code that has a Config needs no cattrs; only reading a file does."""
    code = "import sys, flexchat.config.model, flexchat.config.patterns; sys.exit('cattrs' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
