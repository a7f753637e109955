"""docs/identity.md: its commands, its token file and its tables."""

import re
import shlex
import tomllib
from pathlib import Path

import attrs
import pytest
from flexchat_cli.main import main
from flexchat_web.access_tokens import FRESH_S, MAX_AGE_S, MAX_TOKEN_CHARS, REFETCH_S
from flexchat_web.commands.serve import serve
from flexchat_web.serve_settings import JwtSettings, ProxySettings
from flexchat_web.token_file import read_token_file

PAGE = (Path(__file__).parents[2] / "docs" / "identity.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_its_commands_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks("console")).splitlines()
    add, list_, remove, *serves = (shlex.split(line.removeprefix("$ flexchat ")) for line in lines)

    assert main(add) == 0
    assert main(list_) == 0
    id = capsys.readouterr().out.splitlines()[1].split()[0]
    assert main([id if word == "4f1c" else word for word in remove]) == 0
    assert read_token_file(tmp_path / "tokens") == ()
    for words in serves:
        serve.make_context("serve", words[1:])


def test_its_token_file_can_be_read(tmp_path):
    (tmp_path / "tokens").write_text(blocks("text")[0])
    hashed, plain = read_token_file(tmp_path / "tokens")

    assert (hashed.identity.principal.name, hashed.ends, hashed.token) == ("ann", "M1es", "")
    assert plain.identity.principal.roles == ("support", "finance")


@pytest.mark.parametrize(("name", "cls"), [("jwt", JwtSettings), ("proxy", ProxySettings)])
def test_its_tables_can_be_read(name, cls):
    (table,) = [tables["serve"][name] for tables in map(tomllib.loads, blocks("toml")) if name in tables["serve"]]

    assert isinstance(cls(**table), cls)
    assert all(f"`{field.name}`" in PAGE or f"\n{field.name} =" in PAGE for field in attrs.fields(cls) if name == "jwt")


def test_its_limits_are_those_of_the_code():
    for text in (f"{MAX_TOKEN_CHARS:,} characters", f"{FRESH_S / 60:.0f} minutes", f"{REFETCH_S:.0f} seconds",
                 f"{MAX_AGE_S / 3600:.0f} hours"):  # fmt: skip
        assert text in PAGE.replace("\n", " ")
