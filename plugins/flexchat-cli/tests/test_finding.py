"""Which file is the configuration."""

from pathlib import Path

import pytest
from flexchat_cli import find_config


@pytest.mark.parametrize(
    ("files", "explicit", "environ", "found"),
    [
        ([], None, {}, None),
        (["flexchat.toml"], None, {}, "flexchat.toml"),
        (["flexchat.json"], None, {}, "flexchat.json"),
        (["flexchat.toml", "flexchat.json"], None, {}, "flexchat.toml"),
        (["flexchat.toml"], None, {"FLEXCHAT_CONFIG": "b.toml"}, "b.toml"),
        (["flexchat.toml"], "a.toml", {"FLEXCHAT_CONFIG": "b.toml"}, "a.toml"),
        (["sub/flexchat.json"], "sub", {}, "sub/flexchat.json"),
        ([], ".", {}, "flexchat.toml"),
    ],
)
def test_a_configuration_is_found_where_it_is_named_or_in_the_folder(tmp_path, files, explicit, environ, found):
    """What is named is taken, there or not: reading it says so."""
    (tmp_path / "sub").mkdir()
    for name in files:
        (tmp_path / name).write_text("")

    assert find_config(explicit, environ, tmp_path) == (tmp_path / found if found else None)


def test_of_two_configurations_the_ignored_one_is_named_in_the_log(tmp_path, caplog):
    for name in ("flexchat.toml", "flexchat.json"):
        (tmp_path / name).write_text("")

    find_config(None, {}, tmp_path)

    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_configuration_in_the_working_folder_is_named_shortly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("flexchat.toml").write_text("")

    assert find_config(environ={}) == Path("flexchat.toml")
