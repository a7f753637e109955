"""Offline stand-ins for FlexChat: mock tools and a rehearsal model."""
