"""Installs packages with commands in a folder, as pip would: a module, and what its metadata say."""

import importlib
import sys

import pytest

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"


@pytest.fixture
def install_commands(tmp_path_factory, monkeypatch):
    """Install a package: its code, its commands by their words, and its plugins by their names."""

    def install(code, commands, plugins=None, name="acme"):
        folder = tmp_path_factory.mktemp("site")
        module = f"{name}_commands_{folder.name.replace('-', '_')}"
        (folder / f"{module}.py").write_text(code)
        info = folder / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA.format(name=name))
        lines = ["[flexchat.commands]", *(f"{words} = {module}:{value}" for words, value in commands.items())]
        lines += ["[flexchat]", *(f"{plugin} = {module}" for plugin in plugins or ())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        importlib.invalidate_caches()
        return module

    return install
