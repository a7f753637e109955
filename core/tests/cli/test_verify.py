"""flexchat plugins verify."""

import json

from flexchat.testing import card as card_module
from flexchat.testing.card import Card, Chapter, Verdict


def made(*verdicts, note=""):
    chapters = (Chapter(title="what it registers", verdicts=verdicts),)
    return Card(plugin="own", package="own 1.0", kit="0.1", chapters=chapters, note=note)


def test_a_card_lists_every_law_and_counts_them(run, tmp_path):
    """The laws of what is registered, and those of the conformance classes the package ships."""
    ran = run("plugins", "verify", "mock")

    assert ran.status == 0
    assert "mock  flexchat-mock 0.1.0" in ran.out
    for title in ("what it registers", "Scripted", "Mock"):
        assert f"\n{title}\n" in ran.out
    assert "ok    text arrives unchanged" in ran.out
    assert "0 broken" in ran.out
    assert not [*tmp_path.iterdir()]  # nothing is left where the user stands


def test_a_broken_law_is_told_with_its_reason_and_the_status(run, monkeypatch):
    """Skipped laws have theirs with -v."""
    verdicts = (
        Verdict(law="it loads", status="broken", reason="it is failed: no reason\nthe law: It loads."),
        Verdict(law="it flies", status="skipped", reason='supports lacks "wings"'),
        Verdict(law="it swims", status="expected", reason="next year"),
    )
    monkeypatch.setattr(card_module, "verify_plugin", lambda name: made(*verdicts, note="It is small."))

    ran = run("plugins", "verify", "own")
    assert ran.status == 1
    assert "FAIL  it loads\n        it is failed: no reason\n        the law: It loads." in ran.out
    assert "wings" not in ran.out
    assert "next year" in ran.out
    assert ran.out.endswith("It is small.\n0 laws kept, 1 do not apply, 1 known to be broken, 1 broken\n")

    assert "wings" in run("plugins", "verify", "own", "-v").out
    data = json.loads(run("plugins", "verify", "own", "--json").out)
    assert data["ok"] is False
    assert data["chapters"][0]["verdicts"][0] == {
        "law": "it loads",
        "status": "broken",
        "reason": "it is failed: no reason\nthe law: It loads.",
    }


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
