"""The page's files, at an address that changes when one of them does, so that browsers cache them permanently."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from .operations import Page

STATIC = Path(__file__).parent / "static"

_STYLES = re.compile(r'(?:\s*<link rel="stylesheet" href="static/css/[a-z_]+\.css" />)+')
_STYLE = re.compile(r'href="static/(css/[a-z_]+\.css)"')
_IMPORT = re.compile(r'^import .* from "(\.[^"]+)";', re.MULTILINE)
_FIRST = ("js/main.js", "js/pages/chat.js")
"""The modules that the page needs first; what they import is loaded along with them, not one after the other."""


class PageFiles:
    """The page's files and those of plugins' pages.

    Attributes:
        version: Digest of all of them; the path /static/v-VERSION/ leads to the same files as /static/.
    """

    def __init__(self, pages: Sequence[Page]) -> None:
        self._folders = [STATIC, *(page.folder for page in pages)]
        self.plugins = f"export const PLUGIN_PAGES = {json.dumps([page.to_dict() for page in pages])};\n"
        self._seen: list[tuple[str, int, int]] = []
        self.version = self.index = self.styles = ""
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if one has changed."""
        paths = [path for folder in self._folders for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        files = [(str(path), status.st_mtime_ns, status.st_size) for path in paths for status in [path.stat()]]
        if files == self._seen:
            return
        digest = hashlib.sha256(self.plugins.encode())
        for path in paths:
            content = path.read_bytes()
            digest.update(b"%s %d " % (path.name.encode(), len(content)) + content)
        self._seen, self.version = files, digest.hexdigest()[:16]
        self._make_index()

    def current(self, name: str) -> tuple[str, bool]:
        """Return the name of a file without the version in front, and whether that is the current one."""
        if not name.startswith("v-"):
            return name, False
        version, _, name = name.partition("/")
        return name, version == f"v-{self.version}"

    def _make_index(self) -> None:
        text = (STATIC / "index.html").read_text(encoding="utf-8")
        self.styles = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in _STYLE.findall(text))
        links = ['<link rel="stylesheet" href="static/css/all.css" />']
        links += [f'<link rel="modulepreload" href="static/{name}" />' for name in _imported()]
        text = _STYLES.sub(lambda _: "".join(f"\n    {link}" for link in links), text)
        self.index = text.replace('="static/', f'="static/v-{self.version}/')


def _imported() -> list[str]:
    """Return the modules that are needed first, with those they import."""
    modules, pending = dict[str, None](), [*_FIRST]
    while pending:
        name = pending.pop()
        if name not in modules and (path := STATIC / name).is_file():  # plugins.js is made by the server
            modules[name] = None
            for imported in _IMPORT.findall(path.read_text(encoding="utf-8")):
                pending.append((path.parent / imported).resolve().relative_to(STATIC.resolve()).as_posix())
    return [*modules]
