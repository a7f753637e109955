"""flexchat new. What it writes is installed and tried in tests/integration/test_scaffold.py."""

import json

import pytest
from flexchat_testing.commands.new import KINDS, files_of


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_written_and_the_next_steps_are_told(run, tmp_path, kind):
    ran = run("new", kind, "acme-thing")

    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[1:] == [
        "next:",
        '  pip install -e "./acme-thing[test]"',
        "  pytest acme-thing",
        "  flexchat plugins verify acme-thing",
    ]
    files = {str(p.relative_to(tmp_path / "acme-thing")) for p in (tmp_path / "acme-thing").rglob("*") if p.is_file()}
    assert files == files_of(kind, "acme-thing").keys()
    assert {"pyproject.toml", "README.md", "src/acme_thing/plugin.py"} <= files
    tests = {each: f"tests/test_{each}.py" for each in ("observer", "policy", "command", "page")}
    assert tests.get(kind, "tests/test_conformance.py") in files
    assert not any("{{" in p.read_text() for p in (tmp_path / "acme-thing").rglob("*") if p.is_file())


def test_the_next_steps_can_be_pasted_where_a_folder_has_a_space(run):
    ran = run("new", "handler", "acme-thing", "--dir", "my plugins")

    assert '  pip install -e "./my plugins/acme-thing[test]"\n  pytest "my plugins/acme-thing"\n' in ran.out


def test_what_is_there_already_is_left_as_it_is(run, tmp_path):
    """A folder with anything in it, or a file of that name; an empty folder may be filled."""
    (tmp_path / "acme-thing").mkdir()
    assert run("new", "handler", "acme-thing").status == 0
    before = (tmp_path / "acme-thing" / "README.md").read_text()

    ran = run("new", "provider", "acme-thing")

    assert ran.status == 2
    assert "exists already and is left as it is" in ran.err
    assert (tmp_path / "acme-thing" / "README.md").read_text() == before
    (tmp_path / "file").write_text("mine")
    assert run("new", "handler", "file").status == 2
    assert run("new", "handler", "acme-thing", "--dir", "file").status == 2
    assert (tmp_path / "file").read_text() == "mine"


def test_dir_says_where(run, tmp_path):
    """Folders above it are made."""
    ran = run("new", "store", "acme-shelf", "--dir", "a/b", "--json")

    assert json.loads(ran.out)["folder"] == "a/b/acme-shelf"
    assert (tmp_path / "a/b/acme-shelf/pyproject.toml").is_file()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("AcmeWeather", "did you mean 'acme-weather'?"),
        ("acme_weather", "did you mean 'acme-weather'?"),
        ("Acme Weather!", "did you mean 'acme-weather'?"),
        ("../evil", "did you mean 'evil'?"),
        ("9lives", "did you mean 'lives'?"),
        ("-", "cannot name a package: at most 40"),
        ("", "cannot name a package"),
        ("é", "cannot name a package"),
        ("a" * 41, "cannot name a package"),
        ("json", "a word of Python's own"),
        ("class", "a word of Python's own"),
        ("match", "a word of Python's own"),
        ("flexchat", "is installed already"),
        ("httpx", "'acme-httpx'"),
    ],
)
def test_a_name_that_cannot_be_used_is_told_with_one_that_can(run, tmp_path, name, told):
    """Nothing is written."""
    ran = run("new", "handler", "--", name)

    assert ran.status == 2
    assert told in ran.err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("provider", "rehearsal", "a provider called 'rehearsal'"),
        ("handler", "math-eval", "a tool handler called 'math_eval'"),
        ("handler", "calculator", "a tool called 'calculator'"),
        ("implementation", "mock", "a implementation type called 'mock'"),
        ("store", "memory", "a document store called 'memory'"),
        ("source", "listed", "a tool source called 'listed'"),
        ("command", "prompts", "a command called 'prompts'"),
    ],
)
def test_a_name_that_another_plugin_offers_is_refused(run, kind, name, told):
    """Two plugins with one name of a kind: neither would have it."""
    ran = run("new", kind, name)

    assert ran.status == 2
    assert told.replace("a impl", "an impl") in ran.err


def test_an_unknown_kind_is_told_with_the_nearest(run):
    ran = run("new", "providr", "acme-thing")

    assert ran.status == 2
    assert "did you mean 'provider'?" in ran.err
