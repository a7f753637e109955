"""E-mail and saved pages: decoded, in the form meant for reading."""

import base64
from email.message import EmailMessage

import pytest
from flexchat_rag.ingest.sections import UnreadableFileError


def mail(**headers):
    message = EmailMessage()
    for name, value in ({"From": "Ada <ada@example.com>", "Subject": "Marmalade für alle"} | headers).items():
        message[name] = value
    return message


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "windows-1252"])
def test_headers_and_text_are_decoded(write, read, encoding, charset):
    message = mail()
    message.set_content("Grüße aus Köln", charset=charset, cte=encoding)

    (piece,), notes = read(write("a.eml", message.as_bytes()))

    assert piece.headings == ("Marmalade für alle",)
    assert piece.text == "From: Ada <ada@example.com>\n\nGrüße aus Köln"
    assert notes == []


def test_html_is_read_as_a_page_and_attachments_are_reported(write, text_of):
    message = mail(Subject="Report")
    message.set_content("<p>Sales &amp; <b>more</b></p><script>x()</script>", subtype="html")
    message.add_attachment(b"\x89PNG" * 100, maintype="image", subtype="png", filename="a.png")

    text, notes = text_of(write("a.eml", message.as_bytes()))

    assert "Sales & more" in text
    assert base64.b64encode(b"\x89PNG" * 30).decode()[:40] not in text
    assert notes == ["holds what is not read: 1 attachment"]


def test_of_two_forms_the_plain_one_is_read(write, text_of):
    message = mail()
    message.set_content("plain words")
    message.add_alternative("<p>words of the page</p>", subtype="html")

    text, notes = text_of(write("a.eml", message.as_bytes()))

    assert "plain words" in text
    assert "words of the page" not in text
    assert notes == []


def test_a_saved_page_is_read(write, text_of):
    message = EmailMessage()
    message["Subject"] = "A page"
    message.set_content("<html><body><h1>Oranges</h1><p>bitter</p></body></html>", subtype="html", cte="base64")
    message.make_related()
    message.add_related(b"GIF89a" * 50, maintype="image", subtype="gif", cid="<1>")

    text, _ = text_of(write("a.mht", message.as_bytes()))

    assert "Oranges\nbitter" in text
    assert "R0lGODlh" not in text


@pytest.mark.parametrize("content", [b"", b"\n\nno headers", b"\x00\x01\x02"])
def test_what_is_no_mail_is_refused(write, read, content):
    with pytest.raises(UnreadableFileError, match="is not an e-mail"):
        read(write("a.eml", content))
