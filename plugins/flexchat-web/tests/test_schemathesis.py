"""The OpenAPI document is kept: what fits it is not refused, what does not is, and answers are as it says."""

import pytest
from flexchat_web.app import create_app
from flexchat_web.serving import Settings
from hypothesis import HealthCheck, given, settings

pytestmark = pytest.mark.slow

schemathesis = pytest.importorskip("schemathesis")

TABLES = {
    "llms": {"robot": {"provider": "scripted", "repeat": True, "replies": [{"text": '{"said": "hello"}'}]}},
    "responses": [{"llm": "robot", "model": "r1", "tools": {"enabled": True}}],
    "tools": {"registry": [{"name": "calculator"}]},
}
FITTING = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
"""Answers to what fits. 422: it can be read and makes no sense; 404: a name of nothing."""

NOT_FITTING = ["400", "401", "403", "404", "406", "409", "413", "415", "422", "429"]
"""Answers to what does not fit. 413: what does not fit is too large as well."""

MAY_BE_400 = ("validateConfig", "reloadConfig", "testConnection", "discoverModels", "listProviderModels")
MAY_BE_400 += ("create_chat_completion", "create_response", "create_embeddings", "chat")
"""As others answer where nothing is wrong with the request's form. The Node original: the same body as 200, or a
failure's. OpenAI: a message that cannot be read, since JSON Schema does not say which role may hold what. Or a
model that makes no embeddings. A chat: a form with neither a text nor a file."""

LAST_WORD = {"role": "user", "content": "Hello!"}
"""What JSON Schema cannot say of messages: the last is the user's."""


@pytest.fixture
def schema(plugins, tmp_path):
    """The document, and the app behind it: on a loop of Schemathesis' own, which ends the app with the test."""
    case = {"name": "hello", "message": "Hello!", "no_call": True}
    tables = {
        **TABLES,
        "conversations": {"path": str(tmp_path / "conversations.db")},
        "validation": {"store": str(tmp_path / "validation.db"), "cases": [case]},
    }
    app = create_app(tables, plugins=plugins, settings=Settings(hosts=("testserver",)))
    wrong = {"negative_data_rejection": {"expected-statuses": NOT_FITTING}}
    rules = {"positive_data_acceptance": {"expected-statuses": FITTING}, **wrong}
    loose = {"positive_data_acceptance": {"expected-statuses": [*FITTING, "400"]}, **wrong}
    exceptions = [{"include-operation-id": name, "checks": loose} for name in MAY_BE_400]
    config = schemathesis.Config.from_dict({"checks": rules, "operations": exceptions})
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=config)


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_requests_made_up_from_the_document_are_answered_as_it_says(schema, mode):
    """All checks of Schemathesis, on every operation."""
    asked, found = set(), []
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=5, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck])
        @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
        def ask(case):
            asked.add(case.operation.label)
            if mode == "positive" and case.path == "/v1/chat/completions":
                case.body["messages"].append(LAST_WORD)
            try:
                case.call_and_validate()
            except schemathesis.errors.FailureGroup as failure:  # not raised: shrinking takes seconds
                found.append(f"{case.operation.label}: {failure}")

        any_bytes_fit = operation.path == "/api/media"
        if mode == "positive" or (operation.body and not any_bytes_fit) or operation.query:
            ask()
    assert len(asked) > (40 if mode == "positive" else 20)
    assert not found, "\n\n".join(found[:5])
