"""A service asked as an exchange does it: its attempts driven, nothing else around the provider."""

import contextlib

from flexchat import ProviderError


async def stream_of(llm, messages, model, options):
    """The events of an answer, asked for again as long as nothing has arrived."""
    attempts = llm.attempts(options.timeout_s, model)
    while True:
        try:
            with attempts.watched():
                asked = llm.provider.stream_chat(messages, model, attempts.within(options))
                async with contextlib.aclosing(asked) as events:
                    async for event in events:
                        attempts.began = attempts.delivered = True
                        yield event
                return
        except ProviderError as error:
            if not await attempts.wait_for_retry(error):
                raise


async def answer_of(llm, messages, model, options):
    """A whole answer, asked for again where that helps."""
    attempts = llm.attempts(options.timeout_s, model)
    while True:
        try:
            with attempts.watched():
                return await llm.provider.generate_chat(messages, model, attempts.within(options))
        except ProviderError as error:
            if not await attempts.wait_for_retry(error):
                raise
