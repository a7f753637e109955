"""Every option and argument that takes a file: what is no file is a sentence with status 1 or 2, and nothing hangs."""

import os

import pytest

TAKERS = {
    "a configuration": ["check", "@.toml"],
    "--config": ["ask", "hello", "--config", "@.toml"],
    "a configuration to overwrite": ["init", "--force", "--config", "@.toml"],
    "tools to lint": ["tools", "lint", "--tools", "@.json"],
    "cases": ["cases", "check", "@.toml"],
    "cases in lines": ["cases", "check", "@.jsonl"],
    "cases to import": ["cases", "import", "@.json"],
    "cases to try": ["validate", "--cases", "@.toml"],
    "a report": ["validate", "--junit", "@.xml"],
    "a store": ["validations", "list", "--store", "@.db"],
    "results to import": ["validations", "import", "@.json"],
    "results to export": ["validations", "export", "@.json"],
    "tokens": ["serve", "--port", "0", "--token-file", "@.txt"],
    "documents": ["rag", "add", "@.txt"],
    "an export of documents": ["rag", "export", "--output", "@.jsonl"],
    "an export of conversations": ["conversations", "export", "--all", "--output", "@.md"],
    "a package": ["new", "handler", "acme-x", "--dir", "@.d"],
}
NO_FILES = {
    "a folder": os.mkdir,
    "a FIFO": getattr(os, "mkfifo", None),
    "a device": lambda name: os.symlink("/dev/zero", name),
    "a link to itself": lambda name: os.symlink(name, name),
    "a long name": None,
}
CONFIG = '[llms.m]\nprovider = "rehearsal"\n[[responses]]\nllm = "m"\nmodel = "m"\n'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a system with FIFOs")
@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_file_is_a_sentence(run, tmp_path, taker, kind):
    if kind == "a folder" and taker in ("documents", "a package", "a configuration to overwrite"):
        pytest.skip("takes a folder")
    make = NO_FILES[kind]
    name = "thing" if make else "x" * 5000
    words = [word.replace("@", name) for word in TAKERS[taker]]
    if make:
        make(next(word for word in words if word.startswith("thing.")))
    if taker == "documents":
        (tmp_path / "flexchat.toml").write_text(CONFIG + '[stores.d]\nprovider = "sqlite"\n')

    ran = run(*words)

    assert ran.status in (1, 2)
    said = (ran.out + ran.err).replace("x" * 5000, "x")
    assert "internal error" not in said
    assert "Errno" not in said
    assert any(name in said for name in ("thing", "x.", "/dev/zero"))


@pytest.mark.parametrize("words", TAKERS.values(), ids=TAKERS)
def test_an_empty_name_is_refused(run, words):
    """ "$FILE" is empty where a variable is not set; it would mean the folder one stands in."""
    ran = run(*["" if "@" in word else word for word in words])

    assert ran.status == 2
    assert "the name is empty" in ran.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a system with FIFOs")
@pytest.mark.parametrize("kind", ["a folder", "a FIFO", "a device", "a link to itself"])
@pytest.mark.parametrize("name", ["flexchat.toml", "flexchat.json"])
def test_a_configuration_that_is_no_file_is_there_all_the_same(run, kind, name):
    """Whoever has one is not answered by the rehearsal model."""
    NO_FILES[kind](name)

    for words in (["ask", "hello"], ["check"], ["tools", "list"], ["chat"]):
        ran = run(*words)
        assert ran.status == 2
        assert f"{name}: " in ran.out + ran.err
        assert ran.out == "" or words == ["check"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [
        '[conversations]\npath = "a\\u0000b"\n',
        '[stores.d]\nprovider = "sqlite"\npath = "a\\u0000b"\n',
        '[stores.d]\nprovider = "memory"\npaths = ["a\\u0000b"]\n',
        '[validation]\nstore = "a\\u0000b"\n',
        '[validation]\nfiles = ["a\\u0000b.toml"]\n',
        '[validation]\nfiles = ["a\\u0000b/*.toml"]\n',
        '[conversations]\npath = "~no-such-user/x.db"\n',
        '[stores.d]\nprovider = "sqlite"\npath = "~no-such-user/x.db"\n',
        '[stores.d]\nprovider = "memory"\npaths = ["~no-such-user/x"]\n',
        '[validation]\nstore = "~no-such-user/x.db"\n',
    ],
)
def test_a_path_that_cannot_be_one_is_a_problem_of_the_configuration(run, tmp_path, table):
    """It is known before anything is asked, and with its place."""
    (tmp_path / "flexchat.toml").write_text(CONFIG + table)

    for words in (["check"], ["ask", "hello"], ["validate"], ["validations", "list"]):
        ran = run(*words)
        assert "internal error" not in ran.err, words
        if words[0] == "check":
            assert ran.status == 2, words
            assert "flexchat.toml:" in ran.out + ran.err
