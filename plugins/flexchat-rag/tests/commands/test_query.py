"""flexchat rag query."""


def test_an_unknown_collection_or_filter_is_an_error(run):
    """With what there is."""
    run("rag", "add", "docs")
    ran = run("rag", "list", "--collection", "document")
    assert (ran.status, "did you mean 'documents'" in ran.err) == (2, True)
    assert "$gtt" in run("rag", "query", "x", "--where", '{"a": {"$gtt": 1}}').err
