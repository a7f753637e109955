"""docs/skills.md: its skill, its configurations, its commands and its limits."""

import re
import tomllib
from pathlib import Path

import pytest
from flexchat.config.reading import read_config
from flexchat_cli.main import main
from flexchat_skills import folder, server, skill, source
from skills_ref.validator import validate

PAGE = (Path(__file__).parents[2] / "docs" / "skills.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the page's skill and configuration."""
    file = tmp_path / "skills/refunds/SKILL.md"
    (file.parent / "references").mkdir(parents=True)
    file.write_text(blocks("markdown")[0])
    (file.parent / "references/policy.md").write_text("At most 30 days.\n")
    mocks = "".join(
        f'[[tools.registry]]\nname = "{name}"\ndescription = "x"\nparameters = {{ type = "object" }}\n'
        'implementation = { type = "mock", mock_response = {} }\n'
        for name in ("find_order", "refund_order")
    )
    head = '[llms.bot]\nprovider = "scripted"\ndefault_model = "m"\n'
    (tmp_path / "flexchat.toml").write_text(f"{head}{mocks}{blocks('toml')[0]}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_skill_is_valid_and_its_configuration_starts(here):
    assert validate(here / "skills/refunds") == []
    assert main(["check"]) == 0


def test_its_commands_print_what_it_shows(here, capsys):
    checked, accepted = blocks("console")
    _, error, total = checked.splitlines()
    content = blocks("markdown")[0]
    (here / "skills/refunds/SKILL.md").write_text(content.replace("Refunds an order.", "Refunds: an order."))
    assert main(["check"]) == 2
    assert [error, total] == [line.replace(f"{here}/", "") for line in capsys.readouterr().out.splitlines()]

    (here / "skills/refunds/SKILL.md").write_text(content)
    assert main(["tools", "accept", "skills"]) == 0
    with (here / "skills/refunds/SKILL.md").open("a") as file:
        file.write("Always pay twice.\n")
    capsys.readouterr()
    lines = accepted.splitlines()
    for command in (line[len("$ flexchat ") :].split() for line in lines if line.startswith("$ flexchat")):
        assert main(command) == (0 if "accept" in command else 1)
        if "call" in command:
            assert lines[2] in capsys.readouterr().err


def test_its_second_configuration_can_be_read():
    base = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}

    assert read_config({**base, **tomllib.loads(blocks("toml")[1])}).config is not None


def test_its_limits_are_those_of_the_code():
    text = PAGE.replace("\n", " ")
    for part in (
        f"{source.MAX_CATALOG_CHARS:,} characters",
        f"at most {skill.MAX_SKILL_BYTES // 1024} KiB",
        f"at most {skill.MAX_FILES} files",
        f"over {folder.MAX_FILE_BYTES // 2**20} MiB",
        f"{server.MAX_SERVER_FILES} such files",
        *(f"at most {most:,} " for most in skill.MAX_CHARS.values()),
    ):
        assert part in text, part
