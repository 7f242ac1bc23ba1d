"""Proposes a project's first policy: looks at the project, and writes the proposal."""
