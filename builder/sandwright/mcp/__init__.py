"""Decides which messages of the Model Context Protocol (MCP) pass when a policy lists tools.

`messages` decides on one message, `events` finds the messages of a stream of server-sent events. Neither
opens anything: `egress.mcp_filter` carries the messages over HTTP.
"""
