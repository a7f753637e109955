"""flexchat serve --workers: processes that share a port."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

CONFIG = """
[conversations]
path = "conversations.db"

[llms.first]
provider = "rehearsal"

[[responses]]
llm = "first"
model = "rehearsal"
"""


def children(process):
    return [*map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]


def eventually(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError, AssertionError):
            if found := condition():
                return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    (tmp_path / "tokens").write_text("acme the-first-token-of-all\n")
    return tmp_path


@pytest.fixture
def server(folder, request):
    """The parent of two processes, and its address; the parameter has further options."""
    options = [each.format(folder=folder) for each in getattr(request, "param", [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "flexchat", "serve", "--port", "0", "--workers", "2", *options],
        cwd=folder,
        env={**os.environ, "FLEXCHAT_DATA": str(folder / "data")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[2]
    yield process, url
    process.kill() if process.poll() is None else None
    process.wait()
    process.stdout.close()


def services(url):
    with httpx.Client() as client:  # a connection of its own, which any process may accept
        return [llm["name"] for llm in client.get(f"{url}api/ui-config").json()["llms"]]


def services_of_each(process, url):
    """What each process serves: the others are stopped while it is asked."""
    found, processes = [], children(process)
    for one in processes:
        others = [other for other in processes if other != one]
        try:
            for other in others:
                os.kill(other, signal.SIGSTOP)
            found.append(services(url))
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)
    return found


def test_a_crashed_process_is_replaced_and_all_use_a_changed_configuration(server, folder):
    process, url = server
    eventually(lambda: services(url) == ["first"])
    before = eventually(lambda: len(found := children(process)) == 2 and found)

    os.kill(before[0], signal.SIGKILL)
    after = eventually(lambda: len(found := children(process)) == 2 and found != before and found)
    eventually(lambda: services_of_each(process, url) == [["first"], ["first"]])
    config = httpx.get(f"{url}api/config").json()
    text = config["text"].replace("first", "second")
    saved = httpx.put(f"{url}api/config", json={"text": text, "version": config["version"]})
    eventually(lambda: services_of_each(process, url) == [["second"], ["second"]])
    (folder / "flexchat.toml").write_text(CONFIG.replace("first", "third"))
    eventually(lambda: services_of_each(process, url) == [["third"], ["third"]])
    other = {"llms": {"x": {"provider": "rehearsal"}}, "responses": [{"llm": "x", "model": "rehearsal"}]}
    applied = httpx.post(f"{url}api/config/reload", json=other)
    process.send_signal(signal.SIGTERM)

    assert before[1] in after
    assert saved.status_code == 200
    assert applied.status_code == 400
    assert "several processes serve this configuration" in applied.text
    assert process.wait(30) == 0
    assert not any(Path(f"/proc/{child}").exists() for child in after)


def test_a_file_that_cannot_be_used_ends_none_of_those_that_serve(server, folder):
    process, url = server
    eventually(lambda: services_of_each(process, url) == [["first"], ["first"]])
    before = children(process)

    (folder / "flexchat.toml").write_text(CONFIG.replace("rehearsal", "nosuch"))
    os.kill(before[0], signal.SIGKILL)
    seen = set()
    eventually(lambda: seen.update(children(process)) or len(seen - {*before}) >= 2)  # one has ended, the next is tried
    meanwhile = services(url)
    (folder / "flexchat.toml").write_text(CONFIG.replace("first", "second"))
    eventually(lambda: services_of_each(process, url) == [["second"], ["second"]])

    assert meanwhile == ["first"]
    assert before[1] in children(process)


def test_processes_end_with_their_parent(server):
    process, url = server
    eventually(lambda: services_of_each(process, url) == [["first"], ["first"]])
    running = children(process)

    process.kill()

    eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in running))


def test_an_unusable_configuration_ends_all(folder):
    (folder / "flexchat.toml").write_text(CONFIG.replace("rehearsal", "nosuch"))

    ended = subprocess.run(
        [sys.executable, "-m", "flexchat", "serve", "--port", "0", "--workers", "2"],
        cwd=folder,
        env={**os.environ, "FLEXCHAT_DATA": str(folder / "data")},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 2
    assert "no provider is called 'nosuch'" in ended.stderr


def test_processes_need_a_configuration_in_a_file(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "flexchat", "serve", "--port", "0", "--workers", "2"],
        cwd=tmp_path,
        env={**os.environ, "FLEXCHAT_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, "share a configuration's file" in ended.stderr) == (2, True)


@pytest.mark.parametrize("server", [["--token-file", "{folder}/tokens"]], indirect=True, ids=["token file"])
@pytest.mark.parametrize("is_told", [False, True], ids=["by itself", "SIGHUP"])
def test_all_processes_use_a_changed_token_file(server, folder, is_told):
    """With the same size, time and inode only a signal makes them read it."""
    process, url = server
    file = folder / "tokens"

    def statuses(token):
        headers = {"authorization": f"Bearer {token}"}
        return {httpx.get(f"{url}api/tools/list", headers=headers).status_code for _ in range(10)}

    eventually(lambda: statuses("the-first-token-of-all") == {200})
    before = eventually(lambda: len(found := children(process)) == 2 and found)
    facts = file.stat()
    with file.open("r+") as written:
        written.write("acme the-second-token-of-an\n")
    if is_told:
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        process.send_signal(signal.SIGHUP)
    eventually(lambda: statuses("the-second-token-of-an") == {200})

    assert statuses("the-first-token-of-all") == {401}
    assert children(process) == before
