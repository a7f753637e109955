"""[[skills]] at the start of a chat and in ``flexchat check``: every problem with its file and line."""

import pytest
from flexchat import ConfigError
from flexchat_cli.main import main

from .conftest import CONFIG, REFUNDS, chat_of, write


def problems(folder, more=""):
    (folder / "flexchat.toml").write_text(CONFIG.format(more=more))
    with pytest.raises(ConfigError) as caught:
        chat_of(folder)
    return str(caught.value)


def test_problems_of_several_skills_are_reported_at_once(folder):
    write(folder / "skills/refunds/SKILL.md", "---\nname: refunds\ndescription: a: b\n---\nx")
    write(folder / "skills/reports/SKILL.md", "Be short.\n")

    text = problems(folder)

    assert f"{folder}/skills/refunds/SKILL.md:3: the front matter is not YAML" in text
    assert f"{folder}/skills/reports/SKILL.md:1: it does not begin with front matter" in text


def test_two_skills_of_one_name_are_a_problem(folder):
    write(folder / "more/refunds/SKILL.md", REFUNDS)

    text = problems(folder, '[[skills]]\nfolder = "more"')

    assert f"more/refunds: two skills are called 'refunds': the other is {folder}/skills/refunds" in text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('[[skills]]\nfolder = "skill"', "flexchat.toml:15: skills[1].folder: there is no folder"),
        ('[[skills]]\nfolder = "skill"', "(did you mean 'skills'?)"),
        ('[[skills]]\nserver = "shop"', "skills[1].server: no MCP server is called 'shop'; configured: none"),
        ("[[skills]]\n", "skills come from either a folder or a server"),
        ('[[skills]]\nfolder = "skills"\nserver = "x"', "skills come from either a folder or a server"),
        ('[[skills]]\nfoldr = "skills"', "(did you mean 'folder'?)"),
    ],
)
def test_faults_of_the_table_are_problems(folder, more, text):
    assert text in problems(folder, more)


def test_a_table_that_is_no_list_is_a_problem(folder):
    (folder / "flexchat.toml").write_text(CONFIG.format(more="").replace("[[skills]]", "[skills]"))

    with pytest.raises(ConfigError, match=r"write \[\[skills\]\]"):
        chat_of(folder)


def test_descriptions_that_are_too_long_in_all_are_a_problem(folder):
    for number in range(20):
        content = REFUNDS.replace("name: refunds", f"name: s{number}").replace("Refunds an", "x" * 900)
        write(folder / f"skills/s{number}/SKILL.md", content)

    assert "names and descriptions of 22 skills have" in problems(folder)


def test_a_note_about_the_skills_names_their_table(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    main(["check"])

    assert "note: flexchat.toml:5: skills: source 'skills' was never opened" in capsys.readouterr().out
