"""The person who runs a command: signs in with a browser, and answers questions."""

from __future__ import annotations

import attrs
import mcp_types as types
from mcp.client.auth import AuthorizationCodeResult

from .answers import Answers
from .browser import Browser


@attrs.frozen
class Person:
    """See grant.Person; a browser is there if the server may ask to sign in."""

    answers: Answers
    browser: Browser | None = None

    @property
    def redirect_uri(self) -> str:
        """Where the browser comes back to."""
        assert self.browser is not None
        return self.browser.redirect_uri

    @property
    def problem(self) -> str:
        """Why an answer did not fit its question."""
        return self.answers.problem

    async def sign_in(self, url: str) -> AuthorizationCodeResult:
        """See Browser.sign_in."""
        assert self.browser is not None
        return await self.browser.sign_in(url)

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """See Answers.answer."""
        return await self.answers.answer(question)
