"""flexchat plugins verify."""

import json

import pytest
from flexchat_testing import card as card_module
from flexchat_testing.card import Card, Chapter, Verdict


def made(*verdicts, note=""):
    chapters = (Chapter(title="what it registers", verdicts=verdicts),)
    return Card(plugin="own", package="own 1.0", kit="0.1", chapters=chapters, note=note)


@pytest.mark.slow
def test_a_card_counts_the_laws_and_lists_them_all_with_v(run, tmp_path):
    """The laws of what is registered, and those of the conformance classes the package ships."""
    ran = run("plugins", "verify", "testing", "-v")

    assert ran.status == 0
    assert "testing  flexchat-testing 0.1.0" in ran.out
    for title in ("what it registers", "Scripted"):
        assert f"\n{title}: " in ran.out
    assert "ok    text arrives unchanged" in ran.out
    assert "0 broken" in ran.out
    assert not [*tmp_path.iterdir()]  # nothing is left where the user stands


def test_what_is_not_kept_is_told_with_its_reason_and_the_status(run, monkeypatch):
    """Kept laws are counted; -v names them."""
    verdicts = (
        Verdict(law="it swims", status="kept"),
        Verdict(law="it loads", status="broken", reason="it is failed: no reason\nthe law: It loads."),
        Verdict(law="it flies", status="skipped", reason='does not apply: supports lacks "wings" (it can fly)'),
        Verdict(law="it lands", status="skipped", reason='does not apply: supports lacks "wings" (it can fly)'),
        Verdict(law="it sings", status="expected", reason="next year"),
    )
    monkeypatch.setattr(card_module, "verify_plugin", lambda name: made(*verdicts, note="It is small."))

    ran = run("plugins", "verify", "own")
    assert ran.status == 1
    assert ran.out == (
        "own  own 1.0  (kit of FlexChat 0.1)\n"
        "\n"
        "what it registers: 1 kept, 2 not applicable, 1 known to be broken, 1 broken\n"
        "  FAIL  it loads\n"
        "        it is failed: no reason\n"
        "        the law: It loads.\n"
        "  xfail it sings\n"
        "        next year\n"
        '  - supports lacks "wings" (it can fly): it flies, it lands\n'
        "\n"
        "It is small.\n"
        "laws: 1 kept, 2 not applicable, 1 known to be broken, 1 broken\n"
    )

    assert "  ok    it swims\n" in run("plugins", "verify", "own", "-v").out
    data = json.loads(run("plugins", "verify", "own", "--json").out)
    assert data["ok"] is False
    assert len(data["chapters"][0]["verdicts"]) == len(verdicts)
    assert data["chapters"][0]["verdicts"][1] == {
        "law": "it loads",
        "status": "broken",
        "reason": "it is failed: no reason\nthe law: It loads.",
    }


def test_laws_that_break_for_one_reason_stand_together(run, monkeypatch):
    """One mistake in a provider breaks two dozen; what each of them states is in the full list."""
    verdicts = [
        Verdict(law=law, status="broken", reason=f"it is ill\nthe law: {law}.") for law in ("it eats", "it drinks")
    ]
    monkeypatch.setattr(card_module, "verify_plugin", lambda name: made(*verdicts))

    assert "  FAIL  2 laws: it eats, it drinks\n        it is ill\n\n" in run("plugins", "verify", "own").out
    assert run("plugins", "verify", "own", "-v").out.count("the law: ") == 2


def test_an_unknown_plugin_and_a_missing_name_are_usage_errors(run):
    ran = run("plugins", "verify", "opnai")
    assert ran.status == 2
    assert "did you mean 'openai'?" in ran.err

    assert run("plugins", "verify").status == 2


def test_plugins_alone_still_lists_them(run):
    """verify is a word of plugins, and plugins a command."""
    assert "flexchat-mock" in run("plugins").out
    assert "flexchat-mock" in run("plugins", "--no-color").out
    assert run("plugins", "verifi", "mock").status == 2
