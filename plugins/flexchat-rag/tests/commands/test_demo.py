"""flexchat demo rag: the first thing a newcomer with documents runs."""

import contextlib
import io
import json

import pytest
from flexchat_cli.main import main
from flexchat_rag.commands import add
from flexchat_rag.commands.demo import NEXT_STEP, QUESTION

pytestmark = pytest.mark.slow

GARDEN = """# Garden

## Water

Tomatoes need water every morning. Cacti want a drop a month.

## Light

Ferns like the shade.
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command line in an empty folder."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FLEXCHAT_CONFIG", raising=False)
    monkeypatch.setattr(add, "SECONDS_BEFORE_THE_FIRST_LINE", 600)  # however slow this machine is just now
    monkeypatch.setattr(add, "SECONDS_BETWEEN_LINES", 600)

    def call(*words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["demo", "rag", *words])
        return status, out.getvalue(), err.getvalue()

    return call


def test_the_demo_shows_files_hits_answer_source_and_the_next_step(run, tmp_path):
    """Offline, without a config, and nothing of it stays."""
    (tmp_path / "here" / "docs").mkdir()
    (tmp_path / "here" / "docs" / "garden.md").write_text(GARDEN)

    status, out, err = run("--question", "How often do tomatoes need water?")

    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0].startswith("Read:  1 file, 2 passages, ")
    assert lines[1].startswith("Found: by words and meaning (minilm/all-MiniLM-L6-v2")
    assert "You:   How often do tomatoes need water?" in lines
    distance, *title = lines[lines.index("You:   How often do tomatoes need water?") + 1].split()
    assert 0 < float(distance) < 0.5
    assert title == ["Garden", "›", "Water", "(docs/garden.md)"]
    assert "Model: Tomatoes need water every morning. (Source: Garden › Water, docs/garden.md)" in lines
    assert lines[-1] == NEXT_STEP
    assert not (tmp_path / "data").exists()
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["docs"]


def test_without_documents_the_readmes_of_the_packages_are_read(run, tmp_path):
    status, out, _ = run("--question", "Which model makes embeddings on this machine?")

    assert status == 0
    assert "(flexchat-" in out
    assert "(Source: " in out
    assert not list((tmp_path / "here").iterdir())


def test_without_the_model_words_alone_are_searched_and_it_says_so(run, tmp_path):
    (tmp_path / "here" / "README.md").write_text(GARDEN)

    status, out, _ = run("--no-plugin", "minilm", "--question", "Who likes shade?")

    assert status == 0
    assert "Found: by words alone: pip install flexchat-minilm" in out
    assert "Model: Ferns like the shade. (Source: Garden › Light, README.md)" in out


def test_as_json_it_is_data(run, tmp_path):
    (tmp_path / "garden.md").write_text(GARDEN)

    status, out, _ = run(str(tmp_path / "garden.md"), "--json")

    told = json.loads(out)
    assert status == 0
    assert (told["files"], told["passages"], told["question"]) == (1, 2, QUESTION)
    assert {hit["title"] for hit in told["hits"]} == {"Garden › Water", "Garden › Light"}


@pytest.mark.parametrize("words", [("nowhere",), ("nowhere", "--json")])
def test_nothing_to_read_is_a_sentence_and_status_1(run, words):
    status, out, err = run(*words)

    assert status == 1
    assert "nowhere does not exist" in err
    assert "no passage was read from nowhere" in err
    assert "Traceback" not in out + err


def test_a_file_that_cannot_be_read_is_left_out_and_named(run, tmp_path):
    (tmp_path / "here" / "garden.md").write_text(GARDEN)
    (tmp_path / "here" / "picture.txt").write_bytes(b"\x00\x01\xff" * 100)

    status, out, _ = run("garden.md", "picture.txt", "--question", "water")

    assert status == 0
    assert "left out: picture.txt" in out


def test_a_missing_model_for_answers_is_a_sentence(run, tmp_path):
    (tmp_path / "here" / "README.md").write_text(GARDEN)

    status, out, err = run("--no-plugin", "mock")

    assert status == 2
    assert "rehearsal" in err
    assert "Traceback" not in out + err


def test_a_broken_configuration_of_the_folder_does_not_matter(run, tmp_path):
    (tmp_path / "here" / "flexchat.toml").write_text("[[[")
    (tmp_path / "here" / "README.md").write_text(GARDEN)

    assert run("--question", "shade")[0] == 0
