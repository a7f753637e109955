"""benchmarks/mcp_chaos.py, a few faults of it: no turn hangs, nothing is left behind, the next turn works."""

import os
import subprocess
import sys

import mcp_chaos as chaos
import pytest

from .conftest import gone

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["SIGKILL to its parent", "half a message, then death"])
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_fault_of_a_small_server(tmp_path, fault, effect):
    chaos.prepared(tmp_path, chaos.SMALL)
    (table, *_) = chaos.tables(tmp_path, tmp_path, is_small=True)
    chaos.write_config(tmp_path, 0, [{**table, "effects": {"*": effect}}])
    life = chaos.Life(tmp_path / "chat0.json", 1)
    async with life.chat() as life.chat_now:
        await life.turn("small0")
        row = await life.strike("small0", fault)

    assert [*chaos.broken(row)] == []
    started = life.logs["small0"].since(0, "start")
    assert gone([pid for line in started for pid in (line["pid"], line["server"])])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_faults_of_real_servers(installed):
    """With more time to recover, and to be gone, than is promised: tests run beside it, and the slowest of 50 counts.

    A server whose keeper and whose program are killed while it starts notices it when it has started.
    """
    words = ["--faults", "50", "--seed", "3", "--recovery", "8", "--environments", str(installed.folder)]
    environment = {**os.environ, "MCP_CHAOS_GONE_S": "20"}
    command = [sys.executable, chaos.__file__, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    if done.returncode == 3:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "orphans: 0" in done.stdout
    assert "0 broken promises in 50 faults" in done.stdout
