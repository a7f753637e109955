"""flexchat rag stats."""

import json


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_figures_are_counted(run):
    """What there is of what."""
    run("rag", "add", "docs")
    figures = data(run("rag", "stats", "--json"))["documents"]
    assert (figures["passages"], figures["sources"], figures["incomplete_sources"]) == (3, 2, 0)
    assert figures["characters"] == sum(
        map(len, ("Run the installer on Linux.Start the engine.Tea is served at five.",))
    )
    assert "passages" in run("rag", "stats").out
