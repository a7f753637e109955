"""What every command pays at its start: nothing heavy."""

import subprocess
import sys

HEAVY = ("httpx", "aiohttp", "numexpr", "numpy", "jsonschema", "cattrs", "re2")


def heavy_after(code: str) -> list[str]:
    script = f"import sys\n{code}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_flexchat_imports_nothing_heavy():
    """`import flexchat` imports none of httpx, aiohttp, numexpr, numpy, jsonschema, cattrs."""
    assert heavy_after("import flexchat") == []


def test_loading_all_plugins_imports_nothing_heavy():
    """A plugin's heavy parts are imported when they are used."""
    code = "from flexchat.assembly import installed_plugins\nhost = installed_plugins()\nassert len(host.reports) >= 4"
    assert heavy_after(code) == []
