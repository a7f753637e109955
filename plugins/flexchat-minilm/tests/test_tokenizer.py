"""Texts become the tokens the model was trained with."""

import gzip
import hashlib
from importlib import resources

import pytest
from flexchat_minilm.provider import load_tokenizer
from hypothesis import given
from hypothesis import strategies as st

TOKENIZER = load_tokenizer()


def test_the_vocabulary_is_that_of_bert_base_uncased():
    """30,522 lines; the hash is that of the vocab.txt which Google published."""
    packed = resources.files("flexchat_minilm").joinpath("vocabulary.txt.gz").read_bytes()
    vocabulary = gzip.decompress(packed)

    assert vocabulary.count(b"\n") == 30_522
    assert hashlib.sha256(vocabulary).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world!", ["hello", ",", "world", "!"]),
        ("unaffable", ["una", "##ffa", "##ble"]),
        ("CAFÉ", ["cafe"]),
        ("日本", ["日", "本"]),
        ("a\0b\tc", ["ab", "c"]),
        ("x" * 101, ["[UNK]"]),
        ("🧵", ["[UNK]"]),
        ("", []),
    ],
)
def test_words_become_known_pieces(text, tokens):
    assert TOKENIZER.encode(text).tokens == ["[CLS]", *tokens, "[SEP]"]


def test_known_ids():
    assert TOKENIZER.encode("Hello world").ids == [101, 7592, 2088, 102]


@given(st.text(max_size=2000))
def test_any_text_has_at_most_256_tokens_between_begin_and_end(text):
    ids = TOKENIZER.encode(text).ids

    assert 2 <= len(ids) <= 256
    assert (ids[0], ids[-1]) == (101, 102)
