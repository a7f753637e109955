"""examples/deploy: what can be checked without Docker.

compose-spec/ is schema/compose-spec.json of github.com/compose-spec/compose-spec, commit a08f8d5 of 2025-10-21,
unchanged, with its license, Apache-2.0.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from flexchat.host import read_config
from jsonschema import Draft7Validator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "deploy"


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that is installed: verify looks for it."""
    path = tmp_path / "flexchat.service"
    text = (FOLDER / "flexchat.service").read_text(encoding="utf-8")
    path.write_text(text.replace("/opt/flexchat/bin/flexchat", "/bin/true"), encoding="utf-8")
    return path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_accepted_and_hardened(unit):
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", unit], capture_output=True, text=True, check=False
    )

    level = re.search(r"Overall exposure level for flexchat.service: ([0-9.]+)", security.stdout)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert level is not None
    assert float(level[1]) <= 2.5


def test_units_of_one_machine_share_the_user_that_owns_their_folder(unit):
    text = unit.read_text(encoding="utf-8")

    assert re.search(r"^DynamicUser=yes\nUser=flexchat\nStateDirectory=flexchat\n", text, re.MULTILINE)


def test_the_image_is_built_from_packages_of_this_checkout():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")

    packages = re.search(r'PACKAGES="([^"]*)"', text)
    assert packages is not None
    assert [name for name in packages[1].split() if not (ROOT / name / "pyproject.toml").exists()] == []
    assert "USER flexchat" in text
    assert "/ready" in text


@pytest.fixture
def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


def test_the_compose_file_fits_the_published_schema(compose):
    schema = Path(__file__).parent / "compose-spec" / "compose-spec.json"
    validator = Draft7Validator(json.loads(schema.read_text(encoding="utf-8")))

    assert [error.json_path for error in validator.iter_errors(compose)] == []

    compose["services"]["nginx"]["port"] = ["443:443"]
    assert [error.json_path for error in validator.iter_errors(compose)] == ["$.services.nginx"]


def test_the_compose_file_uses_what_it_declares(compose):
    services = compose["services"]

    assert {name for each in services.values() for name in each.get("secrets", ())} == {*compose["secrets"]}
    assert {name for each in services.values() for name in each.get("networks", ())} == {*compose["networks"]}
    assert [name for name, each in services.items() if "ports" in each] == ["nginx"]
    for each in services.values():
        assert {*each.get("depends_on", ())} <= {*services}
        for volume in each.get("volumes", ()):
            source = volume.partition(":")[0]
            is_made_by_the_operator = source == "./tls"
            assert source in compose["volumes"] or is_made_by_the_operator or (FOLDER / source).exists(), source


def test_the_servers_share_the_sessions_of_browsers(compose):
    assert ["data:/data" in compose["services"][name]["volumes"] for name in ("server-1", "server-2")] == [True, True]


def test_the_servers_trust_the_address_that_the_proxy_has(compose):
    address = compose["services"]["nginx"]["networks"]["inside"]["ipv4_address"]
    for name in ("server-1", "server-2"):
        assert f"--trusted-proxy {address}" in compose["services"][name]["command"][2]


def test_the_configuration_can_be_used(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://flexchat:secret@database/flexchat")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")

    assert read_config(FOLDER / "flexchat.toml").problems == []


@pytest.mark.parametrize("name", ["flexchat.service", "compose.yaml"])
def test_the_options_of_the_examples_exist(name):
    text = (FOLDER / name).read_text(encoding="utf-8")

    help = subprocess.run(
        [sys.executable, "-m", "flexchat", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = re.findall(r"flexchat serve(.*?)(?:'?$|\n\n)", text, re.DOTALL | re.MULTILINE)
    options = {option for command in commands for option in re.findall(r"--[a-z-]+", command)}
    assert options
    assert [option for option in options if option not in help] == []
