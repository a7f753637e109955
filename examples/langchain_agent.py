"""A LangChain agent that uses FlexChat's tools and models; prints the conversation.

    pip install ./core ./plugins/* ./flexchat-* . langchain
    python examples/langchain_agent.py examples/real-model.toml "What is 12.5% of 640?"

The tools run in FlexChat's executor: checked, within their time limits, and visible to its plugins. The model is
whatever the configuration's rules choose.

"""

import asyncio
import sys

from flexchat import SyncFlexChat
from flexchat_langchain.model import FlexChatModel
from flexchat_langchain.tools import langchain_tools
from langchain.agents import create_agent


async def main(config: str, *questions: str) -> None:
    with SyncFlexChat.from_config(config) as chat:
        agent = create_agent(FlexChatModel(chat=chat), langchain_tools(chat))
        messages = []
        for question in questions or ("What is 12.5% of 640?",):
            known = len(messages)
            messages = [*messages, ("user", question)]
            messages = (await agent.ainvoke({"messages": messages}))["messages"]
            for message in messages[known:]:
                message.pretty_print()


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ("examples/real-model.toml",))))
