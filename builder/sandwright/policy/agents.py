"""The coding agents that have a preset. Imports nothing: each run asks whether its command is one of them."""

AGENTS = ("claude", "codex", "gemini", "aider", "opencode")
"""Each has a preset `agent-NAME`, a program of this name, and a row in docs/agents.md."""
