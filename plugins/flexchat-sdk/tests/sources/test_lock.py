"""The file of accepted tools: what is written is read again, by several processes, and never lost."""

import hashlib
import json
import os
import stat
import subprocess
import sys

import pytest
from flexchat.domain.sourced import SourcedTool
from flexchat.errors import ToolDefinitionError, ToolsLockError
from flexchat_sdk.sources.lock import MAX_BYTES, KeptSource, ToolsLock
from flexchat_testing import sourced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
TOOLS = st.builds(
    SourcedTool,
    name=st.text(min_size=1),
    description=st.text(),
    parameters=st.dictionaries(st.text(), JSON, max_size=3),
    implementation=st.text(min_size=1),
    settings=st.dictionaries(st.text().filter(lambda key: key != "type"), JSON, max_size=3),
    effect=st.sampled_from(["read", "idempotent", "write"]),
    honours_key=st.booleans(),
    timeout_ms=st.none() | st.integers(1, 10**6),
)


@pytest.fixture
def lock(tmp_path):
    return ToolsLock(tmp_path / "flexchat.tools.lock")


def keep(lock, name="shop", *tools):
    kept = KeptSource(type="listed", tools={tool.name: tool for tool in tools})
    lock.update(lambda sources: sources.update({name: kept}))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TOOLS, max_size=4, unique_by=lambda tool: tool.name), st.text())
def test_what_is_written_is_read_again(lock, tools, fingerprint):
    """Any texts, also half of a surrogate pair; the order of keys within a tool stays."""
    kept = KeptSource(type="listed", fingerprint=fingerprint, tools={tool.name: tool for tool in tools})
    lock.update(lambda sources: sources.update(shop=kept))

    (found,) = ToolsLock(lock.path).read().values()

    assert (found.tools, found.edited, found.fingerprint) == (kept.tools, {}, fingerprint)
    for tool in tools:
        assert [*found.tools[tool.name].parameters] == [*tool.parameters]


@given(TOOLS, TOOLS)
def test_a_digest_is_that_of_all_of_a_tool(one, other):
    assert (one.digest == other.digest) == (
        json.dumps(one.to_dict(), sort_keys=True) == json.dumps(other.to_dict(), sort_keys=True)
    )
    assert SourcedTool.from_dict(one.to_dict()) == one


@given(JSON)
def test_anything_else_is_not_a_tool(data):
    with pytest.raises(ToolDefinitionError):
        SourcedTool.from_dict(data)


def test_the_same_tools_make_the_same_file(lock):
    keep(lock, "b", sourced("x"), sourced("a"))
    keep(lock, "a", sourced("y"))
    first = lock.path.read_text()
    lock.path.unlink()
    keep(lock, "a", sourced("y"))
    keep(lock, "b", sourced("a"), sourced("x"))
    assert lock.path.read_text() == first
    assert [*json.loads(first)["sources"]] == ["a", "b"]


def test_a_tool_edited_by_hand_is_told_and_stays_in_the_file(lock):
    """Even when another source is written."""
    keep(lock, "shop", sourced("find"), sourced("order"))
    text = lock.path.read_text().replace("The tool find.", "Do what you like.")
    lock.path.write_text(text)

    assert {*lock.read()["shop"].edited} == {"find"}
    assert {*lock.read()["shop"].tools} == {"order"}
    keep(lock, "other", sourced("more"))
    assert "Do what you like." in lock.path.read_text()
    assert {*lock.read()["shop"].edited} == {"find"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "line 1 is not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "not what FlexChat writes"),
        (b'{"version": 1}', "not what FlexChat writes"),
        (b'{"version": 1, "sources": {"shop": {"tools": []}}}', "its source 'shop'"),
        (b'{"version": 2, "sources": {}}', "later FlexChat"),
        (b'{"version": true, "sources": []}', "not what FlexChat writes"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{\n<<<<<<< HEAD\n", "merge conflict"),
    ],
)
def test_a_damaged_file_is_told_and_never_overwritten(lock, content, told):
    lock.path.write_bytes(content)
    with pytest.raises(ToolsLockError, match=told):
        lock.read()
    with pytest.raises(ToolsLockError, match=told):
        keep(lock, "shop", sourced("find"))
    assert lock.path.read_bytes() == content


@pytest.mark.parametrize(
    "wrong",
    [
        {"effect": "none"},
        {"effect": ["read"]},
        {"timeout_ms": "1"},
        {"timeout_ms": 0},
        {"timeout_ms": True},
        {"timeout_ms": 10**400},
        {"honours_key": "yes"},
        {"parameters": []},
        {"implementation": {"type": ["mock"]}},
        {"implementation": "mock"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_tool_whose_hash_was_forged_too_must_still_be_one(lock, wrong):
    """What it may change, above all: an effect that is none would be no write."""
    data = {**sourced("find").to_dict(), **wrong}
    digest = hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    del data["name"]
    tools = {"find": {"hash": f"sha256:{digest}", **data}}
    lock.path.write_text(
        json.dumps({"version": 1, "sources": {"shop": {"type": "listed", "fingerprint": "", "tools": tools}}})
    )

    (found,) = lock.read().values()

    assert (found.tools, {*found.edited}) == ({}, {"find"})


@pytest.mark.slow
def test_a_huge_file_is_told_unread(lock):
    """It has no content, only a size."""
    with lock.path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ToolsLockError, match="cannot be read"):
        lock.read()


def test_something_else_of_that_name_is_told(lock):
    lock.path.mkdir()
    with pytest.raises(ToolsLockError, match="this is a folder"):
        lock.read()
    with pytest.raises(ToolsLockError):
        keep(lock, "shop", sourced("find"))


def test_a_fifo_hangs_nobody(lock):
    os.mkfifo(lock.path)
    with pytest.raises(ToolsLockError, match="FIFO"):
        lock.read()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolsLockError, match="cannot be written"):
        keep(ToolsLock(tmp_path / "file" / "flexchat.tools.lock"), "shop", sourced("find"))


def test_permissions_and_links_stay(lock, tmp_path):
    keep(lock)
    lock.path.chmod(0o640)
    real = tmp_path / "real.lock"
    lock.path.rename(real)
    lock.path.symlink_to(real)
    keep(lock, "shop", sourced("find"))
    assert lock.path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_change_is_noticed_by_the_files_date(lock):
    assert not lock.has_changed
    assert lock.read() == {}
    keep(ToolsLock(lock.path), "shop", sourced("find"))
    assert lock.has_changed
    assert [*lock.read()] == ["shop"]
    assert not lock.has_changed


WORKER = """
import sys
from pathlib import Path
from flexchat_sdk.sources.lock import KeptSource, ToolsLock
from flexchat_testing import sourced

lock, number = ToolsLock(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for n in range(5):
    tool = sourced(f"tool{n}")
    kept = KeptSource(type="listed", tools={tool.name: tool})
    lock.update(lambda sources: sources.update({f"source{number}_{n}": kept}))
"""


@pytest.mark.slow
def test_of_processes_that_write_at_once_none_loses_anything(lock):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(lock.path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    assert len(lock.read()) == 20
    assert [path.name for path in lock.path.parent.iterdir()] == [lock.path.name]
