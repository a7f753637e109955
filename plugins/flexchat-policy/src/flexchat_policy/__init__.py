"""Roles: who may use which rules and tools of FlexChat."""
