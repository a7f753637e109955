"""docs/metrics.md: its configuration, its hook, its keys and its metrics."""

import re
from pathlib import Path

import attrs
import yaml
from flexchat.host import installed_plugins
from flexchat_cli import check_config
from flexchat_metrics.objectives import Verdict
from flexchat_metrics.prometheus import format_metrics
from flexchat_metrics.report import report_of
from flexchat_metrics.settings import Objective

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
VERDICT = Verdict(
    **{"target": "tool.pay", "objective": "success", "line": 0.9, "limit_ms": None, "state": "violated", "good": 1},
    **{"tried": 9, "window": "28d", "began": "2026-11-05T00:00:00Z", "budget_left": -7.9},
)


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_its_configuration_can_be_used(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (config,) = blocks("toml")
    (tmp_path / "flexchat.toml").write_text(config)

    assert check_config(tmp_path / "flexchat.toml", installed_plugins())[0] == []


def test_its_hook_runs(capsys):
    (program,) = blocks("python")
    names = {}
    exec(program, names)

    names["flexchat_slo_violated"](VERDICT)

    assert capsys.readouterr().out == "tool.pay success: 1 of 9\n"


def test_it_names_every_key_and_every_verdict():
    rows = PAGE.split("| key | of | meaning |")[1]

    assert all(f"| `{field.name}` |" in rows for field in attrs.fields(Objective))
    assert all(f"| {state} |" in rows for state in ("met", "violated", "insufficient data"))


def test_it_names_every_metric_and_its_alerts_use_no_other():
    text = format_metrics(report_of([]), [VERDICT], shows_costs=True)
    names = {*re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)}
    table = PAGE.split("| metric | labels |")[1].split("\n\n")[0]
    assert {*re.findall(r"`(flexchat_\w+)`", table)} == names

    scrape, alerts = (yaml.safe_load(block) for block in blocks("yaml"))
    assert scrape["scrape_configs"][0]["job_name"] == "flexchat"
    for rule in alerts["groups"][0]["rules"]:
        used = {name.removesuffix("_bucket") for name in re.findall(r"flexchat_\w+", rule["expr"])}
        assert used <= names
        assert used
