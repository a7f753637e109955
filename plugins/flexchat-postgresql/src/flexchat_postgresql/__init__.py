"""PostgreSQL storage for FlexChat's conversations, turns and effects.

PostgresConfig, the settings of a database, and Connections are public, for packages that add tables of their own.
"""

from flexchat.host import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
