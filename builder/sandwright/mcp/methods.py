"""Methods of MCP that a client may use under a list of tools; `messages` has the reasons. Data."""

from __future__ import annotations

CALL = "tools/call"
"""Passes if its tool is listed."""

REQUESTS = frozenset(("initialize", "server/discover", "ping", "tools/list"))
"""Requests of a client that pass with any content."""

NOTIFICATIONS = frozenset(
    f"notifications/{each}" for each in ("initialized", "cancelled", "progress", "roots/list_changed")
)
"""Notifications of a client that pass."""
