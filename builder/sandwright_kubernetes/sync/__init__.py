"""The transfer of a project: into a Pod as layers of an image, and back as a layer of the changes."""

from __future__ import annotations

from sandwright.environment import PROJECT_REGISTRY

REGISTRY = PROJECT_REGISTRY.name
"""The variable with the repository that a project travels through; without it the project is a claim's."""

RIGHTS = (("get", "Pod", "exec"), ("create", "Pod", "exec"))
"""The rights that a project needs to come back: verb, kind, subresource."""
