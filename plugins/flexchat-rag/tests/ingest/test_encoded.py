"""Base64 within texts is left out, and nothing else."""

import base64
import os
import string

import pytest
from flexchat_rag.ingest.sections import without_base64
from hypothesis import given
from hypothesis import strategies as st

DATA = base64.b64encode(os.urandom(3_000)).decode()
LINES = "\n".join(DATA[start : start + 76] for start in range(0, len(DATA), 76))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"![a jar](data:image/png;base64,{DATA}) tasty", "![a jar]([Base64]) tasty"),
        (
            f"Content-Transfer-Encoding: base64\n\n{LINES}\n\nend",
            "Content-Transfer-Encoding: base64\n\n[Base64]\n\nend",
        ),
        ("begin:\r\n\r\n" + LINES.replace("\n", "\r\n") + "\r\n\r\nend.", "begin:\r\n\r\n[Base64]\r\n\r\nend."),
        (f'{{"picture": "{DATA}"}}', '{"picture": "[Base64]"}'),
    ],
)
def test_base64_is_replaced_by_a_mark(text, kept):
    assert without_base64(text) == (kept, 1)


@pytest.mark.parametrize("text", ["ACGT" * 500, "1" * 1_000, "a" * 1_000, "data:text/plain;base64,SGk=", DATA[:150]])
def test_what_only_looks_like_it_stays(text):
    assert without_base64(text) == (text, 0)


@given(st.text(alphabet=string.ascii_letters + " .,\n", max_size=2_000))
def test_words_stay(text):
    assert without_base64(text) == (text, 0)
