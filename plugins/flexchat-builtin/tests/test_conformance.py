"""The handlers and the implementation type keep the laws of the kit."""

from flexchat_builtin import conformance


class TestMathEval(conformance.MathEval):
    """math_eval."""


class TestEcho(conformance.Echo):
    """echo."""


class TestCurrentDatetime(conformance.CurrentDatetime):
    """get_current_datetime."""


class TestGenerateUuid(conformance.GenerateUuid):
    """generate_uuid."""


class TestTextLength(conformance.TextLength):
    """text_length."""


class TestTextCase(conformance.TextCase):
    """text_case."""


class TestTextReplace(conformance.TextReplace):
    """text_replace."""


class TestTextSplit(conformance.TextSplit):
    """text_split."""


class TestTextSearch(conformance.TextSearch):
    """text_search."""


class TestBuiltin(conformance.Builtin):
    """The implementation type."""
