"""What this package provides: the config table ``approvals``, its checks, and the step that asks for approval.

Light: whatever a command or check needs is imported when it is called.
"""

from __future__ import annotations
