"""E-mail (.eml) and saved web pages (.mht): headers, then the text; attachments are reported.

Source: RFC 5322 and RFC 2045 to 2047, as Python's email package reads them.
"""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

from .html_file import html_sections
from .sections import Piece, Reading, SectionBuilder, UnreadableFileError, check_size, parsing

MAX_BYTES = 50_000_000
_HEADERS = ("From", "To", "Cc", "Date")


def read_mail(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield headers and text, decoded. Of multipart/alternative, the plain text is used.

    Raises:
        UnreadableFileError: The file is too large, has no headers, or is damaged.
    """
    check_size(path, MAX_BYTES)
    with parsing("e-mail"):
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        subject = str(message.get("Subject") or "")
        headers = [f"{name}: {message[name]}" for name in _HEADERS if message.get(name)]
        if not message.keys():
            raise UnreadableFileError("is not an e-mail: it has no headers")
        body = message.get_body(("plain", "html"))
        content = body.get_content() if body is not None and body.get_content_maintype() == "text" else ""
        attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    builder = SectionBuilder()
    yield from builder.heading(0, subject)
    if headers:
        builder.add("\n".join(headers) + "\n\n")
    if body is not None and body.get_content_subtype() == "html":
        yield from html_sections(str(content), builder, reading)
    else:
        for paragraph in str(content).replace("\r\n", "\n").split("\n\n"):
            builder.add(f"{paragraph}\n\n")
            if builder.full:
                yield from builder.flush()
    yield from builder.end()
    reading.unread["attachment#"] += len(attached)
