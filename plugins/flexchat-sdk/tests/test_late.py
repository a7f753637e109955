"""Modules that are imported when they are needed."""

import asyncio
import sys
import threading
import types

import pytest
from flexchat_sdk import imported_late, load_module

pytestmark = pytest.mark.anyio

SLOW = """
import late_gate
late_gate.has_started.set()
late_gate.may_end.wait(60)
async def value():
    return 1
"""


async def test_a_module_that_another_thread_imports_is_waited_for(tmp_path, monkeypatch):
    gate = types.ModuleType("late_gate")
    gate.has_started, gate.may_end = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "late_gate", gate)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_slow.py").write_text(SLOW)
    call = imported_late("late_slow", "value")

    first = asyncio.create_task(call())
    await asyncio.to_thread(gate.has_started.wait, 60)
    second = asyncio.create_task(call())
    await asyncio.sleep(0)
    gate.may_end.set()

    assert [await first, await second] == [1, 1]
    assert await load_module("late_slow") is sys.modules.pop("late_slow")
