"""flexchat rag show."""

import json


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_a_source_is_shown_in_its_order_and_a_document_by_its_id(run):
    """As rag list and --json name them."""
    run("rag", "add", "docs")
    shown = data(run("rag", "show", "docs/guide.md", "--json"))
    assert [document["title"] for document in shown] == ["Guide › Install", "Guide › Use"]
    ran = run("rag", "show", shown[1]["id"])
    assert ran.out.startswith(f"Guide › Use\ndocs/guide.md, line 9  [{shown[1]['id']}]\nStart the engine.")
    ran = run("rag", "show", "docs/gide.md")
    assert (ran.status, "neither a source nor an id" in ran.err) == (2, True)
