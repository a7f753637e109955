"""The provider keeps the laws of FlexChat's kit."""

from flexchat_langchain.conformance import LangChainConformance


class TestLangChain(LangChainConformance):
    """The provider, over a model of the kit's."""
