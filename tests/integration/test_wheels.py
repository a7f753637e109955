"""The wheels of all packages: complete, and enough alone, with one provider, and all together. Offline."""

import http.server
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT, ROOT / "core", *ROOT.glob("plugins/flexchat-*"), *ROOT.glob("flexchat-*")]
RULE = '[llms.main]\nprovider = "{provider}"\n{settings}\n[[responses]]\nllm = "main"\nmodel = "any"\n'
CASE = '[[validation.cases]]\nname = "hello"\nmessage = "Hello"\nno_call = true\n'

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of each package, by its canonical name."""
    folder = tmp_path_factory.mktemp("wheels")
    # By the packages' backend itself, in one process: pip takes twenty times as long.
    build = "import os, sys, hatchling.build as b; [(os.chdir(p), b.build_wheel(sys.argv[1])) for p in sys.argv[2:]]"
    subprocess.run([sys.executable, "-c", build, folder, *PACKAGES], check=True)
    return {canonicalize_name(wheel.name.partition("-")[0]): wheel for wheel in folder.glob("*.whl")}


class Installed:
    """An empty folder into which some packages were installed, with what they require and nothing else."""

    def __init__(self, folder: Path, wheels: dict[str, Path], *wanted: str) -> None:
        self.site, self.home = folder / "site", folder / "home"
        self.site.mkdir()
        self.home.mkdir()
        self.others: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        for requirement in wanted:
            self._install(Requirement(requirement), wheels)

    def _install(self, requirement: Requirement, wheels: dict[str, Path]) -> None:
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in self._seen:
                continue
            self._seen.add((name, extra))
            distribution = self._place(name, wheels)
            for line in distribution.requires or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    self._install(needed, wheels)

    def _place(self, name: str, wheels: dict[str, Path]) -> importlib.metadata.Distribution:
        if name in wheels:
            with zipfile.ZipFile(wheels[name]) as wheel:
                wheel.extractall(self.site)
            return next(iter(importlib.metadata.distributions(name=name, path=[str(self.site)])))
        distribution = importlib.metadata.distribution(name)  # the one this test runs with
        self.others.add(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (self.site / top).exists():
                (self.site / top).symlink_to(distribution.locate_file(top))
        return distribution

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command in the empty home."""
        known = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ}
        env = {**known, "PYTHONPATH": str(self.site), "HOME": str(self.home), "FLEXCHAT_DATA": str(self.home / "data")}
        command = [sys.executable, "-S", "-m", "flexchat", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=self.home, env=env, text=True, **pipes)

    def flexchat(self, *words: str, status: int = 0) -> str:
        """Run a command, and return all it printed."""
        with self.begin(*words) as running:
            printed, _ = running.communicate(timeout=60)
        assert running.returncode == status, printed
        assert "Traceback" not in printed
        return printed

    def python(self, code: str) -> str:
        """Run Python code, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", code], cwd=self.home, env={"PYTHONPATH": str(self.site)}, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def config(self, provider: str, settings: str = "", more: str = "") -> None:
        (self.home / "flexchat.toml").write_text(RULE.format(provider=provider, settings=settings) + more)


@pytest.fixture
def installed(tmp_path, wheels):
    """Install packages by their requirements."""
    return lambda *wanted: Installed(tmp_path, wheels, *wanted)


def test_the_wheels_have_every_file_of_their_source(wheels):
    """Data files too: tables, templates, pages, scripts."""
    for package in PACKAGES:
        name = "flexchat" if package == ROOT else "flexchat-core" if package.name == "core" else package.name
        source = package / "src"
        files = {
            file.relative_to(source).as_posix()
            for file in source.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file)
        }
        assert files - {*zipfile.ZipFile(wheels[name]).namelist()} == set()


def test_core_alone_says_which_package_to_install(installed):
    """At most eight other distributions, no command line, and a hint that names its package."""
    core = installed("flexchat-core")

    assert len(core.others) <= 8
    assert not core.others & {"click", "httpx", "aiohttp"}
    assert "pip install flexchat-cli" in core.flexchat("ask", "hi", status=1)
    imported = "import flexchat, sys; flexchat.FlexChat; print({'click', 'httpx', 'sqlite3'} & {*sys.modules})"
    assert core.python(imported) == "set()\n"
    with_source = """
from flexchat import ConfigError, FlexChat
try:
    FlexChat.from_config({"tools": {"mcp": [{"command": ["server"]}]}})
except ConfigError as error:
    print(error)
"""
    assert "pip install flexchat-mcp" in core.python(with_source)


def test_the_command_line_alone_says_which_package_to_install(installed):
    """A hint for everything that stands in another package."""
    core = installed("flexchat-cli")

    assert "pip install flexchat-mock" in core.flexchat("ask", "hi", status=2)
    assert "pip install flexchat-validation" in core.flexchat("validate", status=2)
    assert "pip install flexchat-testing" in core.flexchat("new", "provider", "acme", status=2)
    assert "pip install flexchat-web" in core.flexchat("serve", status=2)
    core.config("openai", more=CASE)
    said = core.flexchat("check", status=2)
    assert "pip install flexchat-openai" in said
    assert "validation: this table is not read" in said


class Completions(http.server.BaseHTTPRequestHandler):
    """A service in OpenAI's words that says hello."""

    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": "Hello!"}}
        chunk = {"id": "1", "object": "chat.completion.chunk", "model": "any", "choices": [choice]}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        pass


def test_core_and_one_provider_answer(installed):
    """A config with [validation] starts without its package."""
    provided = installed("flexchat-cli", "flexchat-openai")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Completions) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{service.server_port}/v1"
        provided.config("openai", f'api_key = "sk-test"\nbase_url = "{address}"', CASE)

        assert "openai  active" in provided.flexchat("plugins")
        assert "flexchat.toml is fine" in provided.flexchat("check")
        assert "Hello!" in provided.flexchat("ask", "hi")
        service.shutdown()


def test_a_library_needs_core_and_a_provider_only(installed):
    """No command line and no database; the SDK comes with the provider."""
    library = installed("flexchat-core", "flexchat-openai")
    asks = """
import sys
from flexchat import SyncFlexChat
with SyncFlexChat.from_model("openai/any", api_key="sk-test", base_url={address!r}) as chat:
    print(chat.respond("hi").content, {{"click", "sqlite3"}} & {{*sys.modules}})
"""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Completions) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        assert library.python(asks.format(address=f"http://127.0.0.1:{service.server_port}/v1")) == "Hello! set()\n"
        service.shutdown()


def test_everything_works_together(installed):
    """The umbrella with all extras: every plugin loads, a model is validated, a new provider is written."""
    everything = installed("flexchat[all,testing]")
    everything.config("rehearsal", more=CASE)

    listed = everything.flexchat("plugins")
    for package in PACKAGES:
        if package != ROOT and package.name not in ("core", "flexchat-cli"):
            assert f"active  {package.name} 0.1.0" in listed
    assert "flexchat.toml is fine" in everything.flexchat("check")
    assert "rehearsal" in everything.flexchat("ask", "hi")
    assert "1 of 1 attempt" in everything.flexchat("validate", "--runs", "1", "--fail-on", "failure")
    assert "flexchat plugins verify acme" in everything.flexchat("new", "provider", "acme")
    assert (everything.home / "acme" / "pyproject.toml").exists()
    with everything.begin("serve", "--port", "0") as serving:
        address = re.search(r"http://127\.0\.0\.1:\d+", serving.stdout.readline())[0]
        health = httpx.get(f"{address}/health", trust_env=False).json()
        page = httpx.get(address, trust_env=False).text
        serving.terminate()
    assert health["status"] == "ok"
    assert "<!doctype html>" in page
