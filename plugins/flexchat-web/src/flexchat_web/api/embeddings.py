"""OpenAI's embeddings, made by the service that the configuration names, or by one of its LLMs.

Source: platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

import array
import base64
import sys
from collections.abc import Sequence
from typing import Any

from flexchat import FlexChat
from flexchat.host import UnknownNameError
from flexchat_sdk import ProviderRequestError

from .. import shapes
from ..operations import Call, Json, Operations, Reply
from ..problems import ApiError
from ..shapes import WORDS, listed, record
from .models import chosen_model
from .openai import ASKS_MODEL, PHASES

MAX_TEXTS = 2_048

_VECTOR = {"anyOf": [listed(float), shapes.TEXT]}
_USAGE = record({"prompt_tokens": int, "total_tokens": int})

operation = Operations("openai", openai_errors=True)


def _refusal(body: Any) -> str | None:
    texts = body.get("input") if isinstance(body, dict) else None
    first = texts[0] if isinstance(texts, list) and texts else None
    if isinstance(first, int | list):
        return "input: this server embeds texts, and does not read arrays of tokens"
    return None


@operation(
    "POST",
    "/v1/embeddings",
    body={
        **record(
            {
                "model": {**shapes.TEXT, "minLength": 1},
                "input": {"anyOf": [WORDS, {**listed(WORDS), "minItems": 1, "maxItems": MAX_TEXTS}]},
            },
            encoding_format={"enum": [None, "float", "base64"]},
            dimensions={"type": ["integer", "null"], "minimum": 1, "maximum": 2**16},
            user=str | None,
        ),
        "examples": [{"model": PHASES, "input": ["What is 2 + 2?"]}],
    },
    refusal=_refusal,
    max_body_bytes=4 * 1024 * 1024,
    answer=record(
        {
            "object": str,
            "model": str,
            "data": listed(record({"object": str, "index": int, "embedding": _VECTOR})),
            "usage": _USAGE,
        }
    ),
    **ASKS_MODEL,
)
async def create_embeddings(call: Call, chat: FlexChat) -> Reply:
    """Turn texts into vectors. The model flexchat is the configuration's embedding; LLM/MODEL is that of an LLM."""
    body, llm, model = call.body, None, None
    if body["model"] != PHASES:
        try:
            llm, model = chosen_model(chat, body["model"])
        except UnknownNameError as error:
            text = f"model: {error}"
            raise ApiError(404, text, kind="model-not-found", param="model", code="model_not_found") from None
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    size = None if body.get("dimensions") is None else int(body["dimensions"])
    try:
        result = await chat.embed(texts, llm=llm, model=model, dimensions=size)
    except ProviderRequestError as error:
        if error.kind != "unsupported_feature":
            raise
        text = f"model: {call.serving.mask(str(error))}"
        raise ApiError(400, text, kind="request", param="model", code=None) from None
    is_text = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _in_base64(vector) if is_text else [*vector]}
        for index, vector in enumerate(result.vectors)
    ]
    tokens = (result.usage.input_tokens if result.usage is not None else None) or 0
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Json({"object": "list", "model": body["model"], "data": data, "usage": usage})


def _in_base64(vector: Sequence[float]) -> str:
    """Return a vector as little-endian numbers of 32 bits."""
    numbers = array.array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
