"""LangChain and FlexChat: its chat models as providers, our tools and chats in its programs."""
