"""The model's tokenizer: WordPiece over the vocabulary of bert-base-uncased."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import TYPE_CHECKING

from .config import MAX_TOKENS

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load_tokenizer() -> Tokenizer:
    """Build the tokenizer, which truncates texts to the model's token limit.

    Source: BERT's uncased tokenizer, which sentence-transformers/all-MiniLM-L6-v2 declares in its configuration.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    packed = resources.files(__package__).joinpath("vocabulary.txt.gz").read_bytes()
    ids = {word: id for id, word in enumerate(gzip.decompress(packed).decode().splitlines())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer
