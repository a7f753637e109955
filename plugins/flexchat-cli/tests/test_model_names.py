"""Aliases, the usual model, and models without their provider."""

import json

import pytest
from flexchat.plugin.host import PluginHost
from flexchat_cli.context import UsageError
from flexchat_cli.models import full_name, saved_names
from flexchat_sdk import ProviderType


def host_with(**models):
    host = PluginHost()
    for name, pattern in models.items():
        kind = ProviderType(name=name, config_class=object, create=list, tool_formats={}, models=pattern)
        host.providers.add(name, kind, f"acme-{name}")
    return host


HOST = host_with(one=r"gpt-.*", two=r"[\w.]+:\w+", three=r"gpt-5.*", four="")


@pytest.mark.parametrize(
    ("named", "full"),
    [("gpt-4", "one/gpt-4"), ("llama3.2:latest", "two/llama3.2:latest"), ("one/any", "one/any"), ("main", "main"),
     ("main/gpt-5", "main/gpt-5")],
)  # fmt: skip
def test_a_name_that_one_provider_has_needs_no_provider(named, full):
    assert full_name(named, ["main"], HOST) == full


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("gpt-5", "several providers have it; write one/gpt-5 or three/gpt-5"),
        ("mian/x", "(did you mean 'main'?)"),
        ("other/x", "the configuration's llms: main; providers: one, two, three, four"),
        ("other", "no model is known as 'other'"),
        ("one", "names a provider and no model: write one/MODEL"),
    ],
)
def test_what_is_no_model_is_refused_with_what_there_is(named, said):
    with pytest.raises(UsageError) as caught:
        full_name(named, ["main"], HOST)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5.2", "openai"),
        ("o3", "openai"),
        ("gpt-4.1-mini", "openai"),
        ("claude-sonnet-5", "anthropic"),
        ("gemini-3-pro", "gemini"),
        ("llama3.2:latest", "ollama"),
    ],
)
def test_the_models_of_the_services_are_known_by_their_names(run, model, provider, monkeypatch):
    from flexchat.assembly import installed_plugins

    assert full_name(model, [], installed_plugins()) == f"{provider}/{model}"


def test_an_alias_stands_for_its_model(run):
    assert run("aliases", "set", "fast", "rehearsal/any").status == 0
    assert run("aliases", "list").out == "fast  rehearsal/any\n"

    assert "rehearsal model" in run("ask", "-m", "fast", "hello").out
    assert json.loads(run("logs", "--json", "-m", "fast").out)[0]["model"] == "any"
    assert run("aliases", "remove", "fast").status == 0
    assert run("ask", "-m", "fast", "hello").status == 2


@pytest.mark.parametrize("words", [("aliases", "set", "a/b", "rehearsal/x"), ("aliases", "set", "a", "nonsense")])
def test_what_cannot_be_an_alias_is_refused(run, words):
    assert run(*words).status == 2
    assert saved_names().aliases == {}


def test_an_alias_may_stand_for_an_llm_of_the_configuration(run, script):
    script('{ text = "Hello." }')
    run("aliases", "set", "mine", "script/other")

    assert json.loads(run("ask", "-m", "mine", "--json", "x").out)["model"] == "other"


def test_the_default_answers_without_a_configuration_and_the_variable_comes_first(run, monkeypatch):
    assert "there is no default" in run("models", "default").err
    run("models", "default", "rehearsal/one")

    assert run("models", "default").out == "rehearsal/one\n"
    assert json.loads(run("ask", "--json", "x").out)["model"] == "one"
    monkeypatch.setenv("FLEXCHAT_MODEL", "rehearsal/two")
    assert json.loads(run("ask", "--json", "x").out)["model"] == "two"
    monkeypatch.delenv("FLEXCHAT_MODEL")
    run("models", "default", "--remove")
    assert run("ask", "x").status == 2


def test_a_damaged_file_is_a_sentence(run):
    run("models", "default", "rehearsal/one")
    from flexchat.files import data_folder

    (data_folder() / "models.json").write_text("[]")

    ran = run("models", "default")
    assert ran.status == 1
    assert "is damaged: delete it" in ran.err
