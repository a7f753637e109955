"""A configuration in several files: what is put together, whose lines are named, and what is never read."""

import os

import pytest
from flexchat import FlexChat
from flexchat.config.document import document_of
from flexchat.config.including import MAX_FILES, MAX_LEVELS, with_included
from flexchat.config.reading import read_config
from flexchat.errors import ConfigError

MAIN = """\
include = ["rules/more.yaml", "tools.json"]

[llms.bot]
provider = "scripted"
default_model = "m"

[[responses]]
name = "own"
llm = "bot"
prompt_file = "prompts/brief.md"
match.topic = "x"
"""
MORE = """\
# rules
responses:
- name: included
  llm: bot
  prompt_file: ../prompts/long.md
llms:
  second: {provider: scripted}
limits: {message_chars: 50}
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "flexchat.toml": MAIN,
        "rules/more.yaml": MORE,
        "tools.json": '{"$schema": "x", "tools": {"registry": [{"name": "calculator"}]}}',
        "prompts/brief.md": "\n  Be brief: {{user_message}}\n\n",
        "prompts/long.md": "Be long.",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def change(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def problems(folder):
    return [str(problem).replace(f"{folder}{os.sep}", "") for problem in read_config(folder / "flexchat.toml").problems]


def test_the_files_are_one_configuration(folder):
    """Tables are merged; lists follow each other, the file's own first."""
    config = read_config(folder / "flexchat.toml").finish()

    assert [rule.name for rule in config.responses] == ["own", "included"]
    assert [rule.prompt for rule in config.responses] == ["Be brief: {{user_message}}", "Be long."]
    assert (sorted(config.llms), config.limits.message_chars) == (["bot", "second"], 50)
    assert [entry.name for entry in config.tools.registry] == ["calculator"]


async def test_a_chat_is_made_from_all_of_them(folder):
    """The rule of the included file answers."""
    change(folder, "rules/more.yaml", "{provider: scripted}", "{provider: rehearsal}")
    change(folder, "rules/more.yaml", "llm: bot", "llm: second\n  model: any")
    async with FlexChat.from_config(folder / "flexchat.toml") as chat:
        assert (await chat.explain("Hello")).rule == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("rules/more.yaml", "llm: bot", "llm: bto", "rules/more.yaml:4: responses[1].llm: no LLM is called 'bto'"),
        ("rules/more.yaml", "message_chars: 50", "mesage_chars: 50", "rules/more.yaml:8: limits: unknown key"),
        (
            "rules/more.yaml",
            "second:",
            "bot:",
            "rules/more.yaml:7: llms.bot.provider: is written in flexchat.toml, too (line 4)",
        ),
        ("rules/more.yaml", "# rules", "a: b: c", "rules/more.yaml:1: this is not a YAML configuration"),
        (
            "rules/more.yaml",
            "../prompts/long.md",
            "long.md",
            "rules/more.yaml:5: responses[0].prompt_file: rules/long.md: there is no",
        ),
        (
            "rules/more.yaml",
            "# rules",
            "include: [../flexchat.toml]",
            "rules/more.yaml:1: include[0]: ../flexchat.toml is included already",
        ),
        (
            "rules/more.yaml",
            "# rules",
            "include: [more.yaml]",
            "rules/more.yaml:1: include[0]: more.yaml is included already",
        ),
        (
            "rules/more.yaml",
            "# rules",
            "include: [../tools.json]",
            "flexchat.toml:1: include[1]: tools.json is included already",
        ),
        ("tools.json", '"calculator"', "5", "tools.json:1: tools.registry[0].name: expected text"),
        (
            "flexchat.toml",
            "rules/more.yaml",
            "rules/mor.yaml",
            "rules/mor.yaml: there is no such file (did you mean 'more.yaml'?) (included by flexchat.toml, line 1)",
        ),
        (
            "flexchat.toml",
            "rules/more.yaml",
            "rules/more.md",
            "a configuration is a .toml, .yaml or .json file (included by flexchat.toml",
        ),
        ("flexchat.toml", "rules/more.yaml", "rules", "a configuration is a .toml, .yaml or .json file"),
        ("flexchat.toml", '"rules/more.yaml"', "7", "flexchat.toml:1: include[0]: expected"),
        (
            "flexchat.toml",
            '["rules/more.yaml", "tools.json"]',
            '"tools.json"',
            "flexchat.toml:1: include: expected a list",
        ),
        (
            "flexchat.toml",
            "prompts/brief.md",
            "prompts",
            "flexchat.toml:10: responses[0].prompt_file: prompts: this is a folder",
        ),
        (
            "flexchat.toml",
            "prompt_file =",
            "prompt = 'x'\nprompt_file =",
            "flexchat.toml:11: responses[0].prompt_file: 'prompt' is written, too",
        ),
    ],
)
def test_a_problem_names_the_file_and_line_it_is_in(folder, name, old, new, said):
    """As it does in a single file."""
    change(folder, name, old, new)

    assert any(said in problem for problem in problems(folder)), problems(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("flexchat.toml", "tools.json", "rules/*.yaml", "include[1]: rules/*.yaml: names are no patterns"),
        ("flexchat.toml", "tools.json", "a\\nb.toml", "flexchat.toml:1: include[1]: expected the name of a file"),
        ("flexchat.toml", "tools.json", "\\u001b[31m.toml", "flexchat.toml:1: include[1]: expected the name of a file"),
        ("flexchat.toml", "tools.json", "x" * 2_000 + ".toml", "flexchat.toml:1: include[1]: expected the name of a"),
        ("tools.json", '"$schema"', '"include": ["\\ud800.toml"], "x"', "tools.json:1: include[0]: expected the name"),
        ("rules/more.yaml", "# rules", "include: a.toml", "more.yaml:1: include: expected a list of names of files"),
        ("rules/more.yaml", "# rules", "include: {a: 1}", "more.yaml:1: include: expected a list of names of files"),
    ],
)
def test_what_is_no_name_of_a_file_is_a_problem(folder, file, old, new, said):
    """In whichever file it stands."""
    change(folder, file, old, new)

    assert any(said in problem for problem in problems(folder)), problems(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are none on this system")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkdir, "this is a folder, not a file"),
        (getattr(os, "mkfifo", None), "this is a FIFO (a named pipe), not a file"),
        (lambda path: os.symlink("/dev/zero", path), "only files there are read"),
        (lambda path: os.symlink(path, path), "the link leads back to itself"),
        (lambda path: os.symlink("gone.toml", path), "the link leads to something that does not exist: gone.toml"),
    ],
)
@pytest.mark.parametrize("old", ["tools.json", "prompts/brief.md"])
def test_what_is_no_file_is_not_opened(folder, old, make, said):
    """None of them keeps a start waiting."""
    make(folder / "odd.toml")
    change(folder, "flexchat.toml", old, "odd.toml")

    assert any(said in problem for problem in problems(folder)), problems(folder)


def test_null_in_one_file_is_no_value(folder):
    """As in a single file."""
    change(folder, "rules/more.yaml", "second: {provider: scripted}", "bot: {provider: ~}")
    change(folder, "tools.json", '"tools"', '"limits": {"message_chars": null}, "tools"')

    assert problems(folder) == []
    assert read_config(folder / "flexchat.toml").finish().limits.message_chars == 50


def test_all_files_together_have_a_limit(folder):
    """Those of prompts count as often as they are named."""
    (folder / "prompts" / "long.md").write_bytes(b"x" * 1_000_000)
    with (folder / "rules" / "more.yaml").open("a") as file:
        file.write('topic: {prompt_file: "../prompts/long.md"}\n')
    rule = "- {llm: bot, match: {topic: x}, prompt_file: ../prompts/long.md}\n"
    change(folder, "rules/more.yaml", "llms:", rule * 8 + "llms:")

    found = [problem for problem in problems(folder) if "all files together have more than 8 MiB" in problem]

    assert [problem.split(":")[0] for problem in found] == ["rules/more.yaml"] * 2 + ["flexchat.toml"]


@pytest.mark.parametrize("key", ["include", "prompt"])
@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../secret.toml", "rules/../../secret.toml", "~/x.toml", "link.toml", "a\0b", " "]
)
def test_nothing_outside_the_folder_is_read(folder, key, name):
    """Neither by its name nor by a link."""
    (folder.parent / "secret.toml").write_text('[variables]\nstolen = "yes"\n')
    (folder / "link.toml").symlink_to(folder.parent / "secret.toml")
    written = name.replace("\0", "\\u0000")
    if key == "include":
        change(folder, "flexchat.toml", "tools.json", written)
    else:
        change(folder, "flexchat.toml", "prompts/brief.md", written)

    found = read_config(folder / "flexchat.toml")

    assert any("only files there are read" in p.text or "the name of a file" in p.text for p in found.problems)
    assert "stolen" not in str(found.document.data)


def test_a_prompt_that_is_not_text_is_named(folder):
    """With its line."""
    (folder / "prompts" / "brief.md").write_bytes(b"one\ntwo \xff\n")

    assert "flexchat.toml:10: responses[0].prompt_file: prompts/brief.md:2: the file is not UTF-8" in problems(folder)


def test_depth_and_number_of_files_are_bounded(folder):
    """A generator of files does not stop a start."""
    for number in range(MAX_LEVELS + 2):
        (folder / f"f{number}.json").write_text(f'{{"include": ["f{number + 1}.json"]}}')
    change(folder, "flexchat.toml", "tools.json", "f0.json")
    assert any(f"more than {MAX_LEVELS} deep" in problem for problem in problems(folder))

    names = [f"g{number}.json" for number in range(MAX_FILES)]
    for name in names:
        (folder / name).write_text("{}")
    change(folder, "flexchat.toml", '"f0.json"', ", ".join(f'"{name}"' for name in names))
    assert any(f"at most {MAX_FILES} files" in problem for problem in problems(folder))


def test_what_is_no_file_cannot_have_files():
    """A mapping in code has no folder; one from a request must not make a server read."""
    tables = {"include": ["x.toml"], "llms": {}, "responses": [{"llm": "bot", "prompt_file": "/etc/passwd"}]}

    found = with_included(document_of(tables))

    assert [problem.path for problem in found.problems] == ["include", "responses[0].prompt_file"]
    with pytest.raises(ConfigError, match="only by a configuration that is a file"):
        FlexChat.from_config(tables)


def test_a_change_of_any_file_is_another_digest(folder):
    """So that a server that watches sees it."""
    digests = {read_config(folder / "flexchat.toml").digest}
    for name in ("rules/more.yaml", "prompts/long.md", "tools.json", "flexchat.toml"):
        with (folder / name).open("a") as file:
            file.write("\n")
        digests.add(read_config(folder / "flexchat.toml").digest)

    assert len(digests) == 5


def test_an_own_key_of_each_file_is_no_conflict(folder):
    """$schema and comments belong to a file."""
    change(folder, "flexchat.toml", "include =", '"$schema" = "y"\ncomment = "main"\ninclude =')

    assert problems(folder) == []
