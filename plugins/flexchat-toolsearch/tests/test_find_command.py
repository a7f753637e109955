"""flexchat tools find, and the page docs/many-tools.md: its configuration and its command."""

import json
import re
from pathlib import Path

import attrs
import pytest
from flexchat.config.model import ToolSearch
from flexchat.host import installed_plugins
from flexchat_cli import check_config
from flexchat_cli.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "many-tools.md").read_text()
OPERATIONS = {
    "findOrder": ("/order", "Find an order"),
    "createRefund": ("/refund", "Refund a charge, in whole or in part"),
    "trackParcel": ("/parcel", "Where a parcel is"),
}


def block(kind):
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    paths = {
        path: {"get": {"operationId": id, "summary": text, "responses": {"200": {"description": "ok"}}}}
        for id, (path, text) in OPERATIONS.items()
    }
    servers = [{"url": "https://shop.example"}]
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": servers, "paths": paths}
    (tmp_path / "shop.openapi.json").write_text(json.dumps(document))
    (tmp_path / "flexchat.toml").write_text(block("toml"))
    return tmp_path


def test_the_page_can_be_used(folder, capsys):
    problems, _ = check_config(folder / "flexchat.toml", installed_plugins())
    assert problems == []
    shown = block("console")
    command, output = shown.removeprefix("$ flexchat ").split("\n", 1)
    words = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', command)]
    assert main(words) == 0
    assert re.sub(r"[\d.]+$", "N", capsys.readouterr().out, flags=re.M) == re.sub(r"[\d.]+$", "N", output, flags=re.M)


def test_the_page_has_every_key():
    rows = PAGE.split("| key of `[tools.search]` |")[1]
    assert all(f"| `{field.name}` | {field.default} |" in rows for field in attrs.fields(ToolSearch))


def test_the_cost_is_that_of_the_first_request(folder, capsys):
    assert main(["tools", "accept", "shop"]) == 0
    capsys.readouterr()
    assert main(["--json", "tools", "cost"]) == 0
    (cost,) = json.loads(capsys.readouterr().out)
    assert {*cost["tools"]} == {"findOrder", "find_tools"}


def test_a_pattern_that_fits_nothing_is_noted_once_the_source_is_known(folder, capsys):
    path = folder / "flexchat.toml"
    path.write_text(path.read_text().replace("shop/find*", "trackparcel"))
    assert main(["tools", "accept", "shop"]) == 0
    capsys.readouterr()
    main(["check"])
    assert "no tool is called 'trackparcel' (did you mean 'trackParcel'?)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["refund", "--rule", "suport"], "did you mean 'support'"),
        (["refund", "--rule", "7"], "rules are numbered 1 to 1"),
    ],
)
def test_a_wrong_rule_is_an_error(folder, capsys, words, problem):
    assert main(["tools", "find", *words]) == 2
    assert problem in capsys.readouterr().err


def test_it_finds_what_the_user_may_use(folder, capsys):
    path = folder / "flexchat.toml"
    path.write_text(path.read_text() + '\n[roles.terminal]\ntools = ["findOrder", "track*"]\n')
    assert main(["tools", "find", "createRefund"]) == 1
    assert "nothing found among 1 deferred tool\n" in capsys.readouterr().err
    path.write_text(path.read_text().replace(', "track*"', ""))
    assert main(["tools", "find", "refund", "--rule", "support"]) == 2
    assert "no tool that you may use is deferred in rule support" in capsys.readouterr().err
    assert main(["can", "terminal", "find_tools"]) == 0
    assert capsys.readouterr().out == "yes: no role need grant it\n"


def test_it_shows_the_names_that_a_model_sees(folder, capsys):
    tool = '[[tools.registry]]\nname = "post.letter"\ndescription = "Send a letter."\nparameters.type = "object"\n'
    path = folder / "flexchat.toml"
    path.write_text(f'{tool}implementation = {{ type = "mock", mock_response = "sent" }}\n\n{path.read_text()}')
    assert main(["tools", "find", "letter"]) == 0
    assert capsys.readouterr().out.startswith("post_letter  ")


def test_nothing_is_found(folder, capsys):
    assert main(["--json", "tools", "find", "xylophone"]) == 1
    assert json.loads(capsys.readouterr().out) == []


def test_without_deferred_tools_it_names_the_table(folder, capsys):
    path = folder / "flexchat.toml"
    path.write_text(re.sub(r"\[tools.search\]\nabove.*|show.*", "", path.read_text()))
    assert main(["tools", "find", "refund"]) == 2
    assert "[tools.search]" in capsys.readouterr().err
