"""LangChain integration: its chat models as providers, and FlexChat's tools and chats for LangChain programs."""
