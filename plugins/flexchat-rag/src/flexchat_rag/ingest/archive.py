"""Office files as ZIP archives of XML parts: size limits and access to parts."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .sections import UnreadableFileError

MAX_UNPACKED = 200_000_000
"""Bytes of all parts together, pictures included."""

MAX_UNPACKED_XML = 50_000_000
"""Bytes of one XML part, which is held as a tree."""

MAX_RATIO = 150
"""Unpacked to packed, where more than ``_HARMLESS`` bytes come out. Text of office files packs about 10:1, deflate
at most 1,032:1, which is what zip bombs use."""

MAX_PARTS = 10_000

_HARMLESS = 5_000_000

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/([A-Za-z]+)/")


def check_archive(path: Path, what: str) -> None:
    """Check the sizes in an archive's directory. Parts are never unpacked beyond the sizes listed there.

    Args:
        what: The format with its article: "a Word document (.docx)".

    Raises:
        UnreadableFileError: The archive is damaged, or a decompression bomb.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise UnreadableFileError(f"is not {what}") from None
    if len(parts) > MAX_PARTS:
        raise UnreadableFileError(f"has {len(parts):,} parts, which no document needs")
    unpacked, packed = sum(part.file_size for part in parts), path.stat().st_size
    too_dense = unpacked > _HARMLESS and unpacked > MAX_RATIO * packed
    if unpacked > MAX_UNPACKED or too_dense:
        raise UnreadableFileError(
            f"unpacks to {unpacked:,} bytes from {packed:,}: it is a zip bomb, or too large to read"
        )
    if any(part.file_size > MAX_UNPACKED_XML for part in parts if part.filename.endswith(".xml")):
        raise UnreadableFileError(f"has a part of more than {MAX_UNPACKED_XML:,} bytes, too large to be read")


def transitional(path: Path) -> BinaryIO:
    """Open an Office Open XML file, converting the namespaces of Strict files to those that readers support.

    Source: ISO/IEC 29500-1 and 29500-4, which differ in namespaces and relationship types.
    """
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as archive:
        parts = archive.namelist()
        if not any(_STRICT.search(archive.read(name)) for name in parts if name.endswith("_rels/.rels")):
            content.seek(0)
            return content
        converted = io.BytesIO()
        with zipfile.ZipFile(converted, "w") as copy:
            for name in parts:
                part = archive.read(name)
                if name.endswith((".xml", ".rels")):
                    part = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part)
                copy.writestr(name, part)
    converted.seek(0)
    return converted


def local_name(element: Any) -> str:
    """Return the name of an XML element without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def elements(root: Any, *names: str) -> Iterator[Any]:
    """Yield the elements of these names, at any depth."""
    return (element for element in root.iter() if local_name(element) in names)


def texts_of(root: Any, *names: str) -> list[str]:
    """Return the texts of the elements of these names, at any depth, without blank ones."""
    return [element.text.strip() for element in elements(root, *names) if (element.text or "").strip()]


class XmlParts:
    """The XML parts of an archive."""

    def __init__(self, content: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(content)
        self.names = self._archive.namelist()

    def tree(self, name: str) -> Any:
        """Parse a part and return its root element; None if the part is missing."""
        from lxml import etree

        if name not in self.names:
            return None
        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
        return etree.fromstring(self._archive.read(name), parser)

    def related(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield (id, type, target part) for each relationship of a part."""
        folder, _, file = name.rpartition("/")
        root = self.tree(f"{folder}/_rels/{file}.rels")
        for each in root if root is not None else ():
            target = each.get("Target", "")
            part = target.removeprefix("/") if target.startswith("/") else posixpath.join(folder, target)
            yield each.get("Id", ""), each.get("Type", "").rpartition("/")[2], posixpath.normpath(part)
