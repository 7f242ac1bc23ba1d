"""Messages of the Model Context Protocol (MCP): which of them pass where a policy lists tools.

`messages` decides on one message, `events` finds the messages of a stream of server-sent events. Neither
opens anything: `egress.mcp_filter` carries the messages over HTTP.
"""
