"""The person behind a turn, asked what a server wants to know in the middle of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexchat.plugin import ToolContext, ToolError, WithMedia

if TYPE_CHECKING:
    import mcp_types as types


class PersonBehind:
    """Answers the questions of one call, and remembers which had no answer, for the model to read."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._unanswered = ""

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """Return the person's answer; see questions.Answer."""
        import mcp_types as types

        schema: Any = None
        if not isinstance(question, types.ElicitRequestURLParams):
            schema = question.requested_schema
            if not isinstance(schema, dict):
                schema = schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        url = question.url if isinstance(question, types.ElicitRequestURLParams) else ""
        reply = await self._context.ask(question.message, schema, url=url)
        if reply.why:
            self._unanswered = f"the tool asked: {question.message[:500]} It got no answer: {reply.why}"
        is_filled_in = reply.action == "accept" and not url
        return types.ElicitResult(action=reply.action, content=dict(reply.content) if is_filled_in else None)

    def annotate(self, value: Any) -> Any:
        """Return a result, with the question that had no answer: the model would take it for the user's decision."""
        if not self._unanswered:
            return value
        if isinstance(value, WithMedia):
            return WithMedia(self.annotate(value.value), value.media)
        return {"result": value, "note": self._unanswered}

    def told_error(self, error: ToolError) -> ToolError:
        """Return an error, with the question that had no answer as its hint."""
        return ToolError(str(error), hint=self._unanswered) if self._unanswered else error
