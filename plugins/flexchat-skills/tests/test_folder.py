"""Folders of skills: nothing outside of a skill's own folder is ever read."""

import os
import sys
import unicodedata

import pytest
from flexchat_skills.folder import read_folder
from flexchat_skills.skill import MAX_FILE_BYTES, MAX_FILES, MAX_SKILL_BYTES
from flexchat_skills.source import FolderPlace

from .conftest import REFUNDS, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def skills(folder):
    return folder / "skills"


def read(skills):
    reported = []
    found = read_folder(skills, lambda path, line, text: reported.append((path.relative_to(skills).as_posix(), text)))
    return found, reported


def test_each_folder_is_a_skill(skills):
    found, reported = read(skills)

    assert [*found] == ["refunds", "reports"]
    assert [*found["refunds"].hashes] == ["SKILL.md", "references/policy.md"]
    assert reported == []


def test_hidden_files_and_caches_are_left_out(skills):
    for name in (".git/config", ".env", "__pycache__/x.py"):
        write(skills / "refunds" / name, "x")
    write(skills / ".git/config", "x")
    write(skills / "README.md", "x")

    found, reported = read(skills)

    assert [*found["refunds"].hashes] == ["SKILL.md", "references/policy.md"]
    assert reported == []


@pytest.mark.parametrize("place", ["refunds/secret.md", "refunds/references/secret.md", "refunds/SKILL.md"])
def test_a_link_to_a_file_outside_is_a_fault(skills, tmp_path, place):
    write(tmp_path / "secret.md", REFUNDS)
    (skills / place).unlink(missing_ok=True)
    (skills / place).symlink_to(tmp_path / "secret.md")

    found, reported = read(skills)

    assert [*found] == ["reports"]
    assert (place, "this link leads outside of the skill's folder") in reported


def test_a_link_to_a_folder_outside_is_a_fault_and_is_not_followed(skills, tmp_path):
    write(tmp_path / "other/secret.md", "secret")
    (skills / "refunds/more").symlink_to(tmp_path / "other")
    (skills / "elsewhere").symlink_to(tmp_path / "other")

    found, reported = read(skills)

    assert [*found] == ["reports"]
    assert reported == [
        ("elsewhere", f"this skill is a link that leads outside of {skills}"),
        ("refunds/more", "this link leads outside of the skill's folder"),
    ]


async def test_a_folder_may_spell_its_name_with_other_characters(skills):
    """As macOS writes them: a letter, then its accent."""
    spelled = unicodedata.normalize("NFD", "café"), unicodedata.normalize("NFC", "café")
    content = REFUNDS.replace("name: refunds", f"name: {spelled[1]}")
    write(skills / spelled[0] / "SKILL.md", content)

    found, reported = read(skills)

    place = FolderPlace(skills / found[spelled[1]].folder)
    assert (await place.read("SKILL.md")).decode() == content
    assert reported == []


@pytest.mark.skipif(sys.platform == "darwin", reason="such folders are one there")
def test_two_folders_that_look_the_same_are_a_fault(skills):
    for form in ("NFC", "NFD"):
        write(skills / unicodedata.normalize(form, "café") / "SKILL.md", REFUNDS.replace("name: refunds", "name: café"))

    assert [text for _, text in read(skills)[1]] == ["two skills are called 'café': their folders look the same"]


def test_links_inside_the_skill_and_loops_do_no_harm(skills):
    (skills / "refunds/again.md").symlink_to("references/policy.md")
    (skills / "refunds/loop").symlink_to(".")
    (skills / "refunds/self").symlink_to("self")

    found, reported = read(skills)

    assert [*found["refunds"].hashes] == ["SKILL.md", "again.md", "references/policy.md"]
    assert reported == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_is_never_opened(skills):
    os.mkfifo(skills / "refunds/pipe.md")

    assert [*read(skills)[0]] == ["refunds", "reports"]


def test_sizes_are_limited(skills):
    write(skills / "refunds/SKILL.md", b"x" * (10 * 2**20))
    write(skills / "reports/data.csv", b"x" * (MAX_FILE_BYTES + 1))

    found, reported = read(skills)

    assert [*found["reports"].hashes] == ["SKILL.md"]
    text = (
        f"the file is too large (10,485,760 bytes, at most {MAX_SKILL_BYTES:,}): move details into files of their own"
    )
    assert reported == [("refunds/SKILL.md", text)]


def test_the_number_of_files_is_limited(skills):
    for number in range(MAX_FILES):
        write(skills / f"reports/{number}.txt", "x")

    found, reported = read(skills)

    assert [*found] == ["refunds"]
    assert [text for _, text in reported] == [f"the skill has more than {MAX_FILES} files"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda skills: (skills / "refunds/SKILL.md").rename(skills / "refunds/skill.md"), "no SKILL.md (did you mean"),
        (lambda skills: write(skills / "SKILL.md", REFUNDS), "this folder is a skill itself"),
        (lambda skills: (skills / "empty").mkdir(), "this skill has no SKILL.md"),
    ],
)
def test_folders_that_are_no_skills_are_faults(skills, make, text):
    make(skills)

    assert [each for _, each in read(skills)[1] if text in each]
