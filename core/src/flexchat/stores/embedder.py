"""The source of a document store's vectors: one of the config's services, or a model on this machine."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from ..domain.text import scrub
from ..llms.llm import LLM
from ..plugin.foreign import contained

QUESTIONS_KEPT = 256
"""How many question vectors are cached: one message asks several collections the same."""


class _PendingVector:
    """A question whose vector is pending or known, and how many callers wait for it."""

    def __init__(self, task: asyncio.Task[Sequence[float]]) -> None:
        self.task = task
        self.waiting = 0


class StoreEmbedder:
    """An Embedder over a service whose provider has ``embed``."""

    def __init__(self, llm: LLM, model: str) -> None:
        self._llm = llm
        self._model = model
        self._questions: OrderedDict[str, _PendingVector] = OrderedDict()

    @property
    def name(self) -> str:
        """Provider and model, which make vectors comparable."""
        return f"{self._llm.provider.name}/{self._model}"

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        """Return one vector for each text; see Embedder."""
        if purpose == "query" and len(texts) == 1:
            return [await self._question(texts[0])]
        return await self._ask(texts, purpose)

    async def _question(self, text: str) -> Sequence[float]:
        question = self._questions.get(text)
        if question is None or question.task.get_loop() is not asyncio.get_running_loop():
            question = self._questions[text] = _PendingVector(asyncio.ensure_future(self._one(text)))
            question.task.add_done_callback(lambda done: self._forget_failed(text, done))
            while len(self._questions) > QUESTIONS_KEPT:
                self._questions.popitem(last=False)
        self._questions.move_to_end(text)
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)  # one caller that stops waiting must not stop the others
        finally:
            question.waiting -= 1
            if not question.waiting and not question.task.done():  # its last waiter is gone
                self._forget(text, question.task)
                question.task.cancel()

    def _forget_failed(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(text, task)

    def _forget(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        entry = self._questions.get(text)
        if entry is not None and entry.task is task:
            del self._questions[text]

    async def _one(self, text: str) -> Sequence[float]:
        return (await self._ask([text], "query"))[0]

    async def _ask(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        # Services refuse a blank text; a dot's vector is as good as any.
        inputs = [scrub(text) if text.strip() else "." for text in texts]
        with contained():
            answer = await self._llm.embed(inputs, self._model, purpose=purpose)
        return answer.vectors
