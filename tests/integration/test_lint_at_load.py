"""What services will make of the tools is said when a config is loaded, not when a request fails."""

from flexchat import FlexChat
from flexchat_cli import check_config

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
PLAIN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def config(provider, *tools, **rule):
    return {
        "llms": {"it": {"provider": provider, "api_key": "test-key", "default_model": "m"}},
        "tools": {
            "registry": [
                {
                    "name": name,
                    "description": "A tool.",
                    "parameters": parameters,
                    "implementation": {"type": "mock", "mock_response": 1},
                }
                for name, parameters in tools
            ]
        },
        "responses": [{"llm": "it", "tools": {"enabled": True, **rule}}],
    }


def test_a_tool_the_service_cannot_be_told_of_is_a_note_at_its_place():
    """Ollama has no way to say that a schema holds itself."""
    problems, notes = check_config(config("ollama", ("walk", TREE), ("look", PLAIN)))

    assert problems == []
    (note,) = notes
    assert note.path == "tools.registry[0]"
    assert "tool 'walk' cannot be sent to ollama" in note.text


def test_only_tools_that_a_rule_offers_to_that_service_are_looked_at():
    """No word about what is never sent."""
    assert check_config(config("ollama", ("walk", TREE), ("look", PLAIN), allowed_tools=["look"])) == ([], [])
    assert check_config(config("openai", ("walk", TREE))) == ([], [])


def test_the_library_has_the_same_notes():
    """FlexChat.notes."""
    chat = FlexChat.from_config(config("gemini", ("walk", {**TREE, "required": ["root"], "minProperties": 1})))

    assert all(note.path.startswith("tools") for note in chat.notes)
