"""The JSON Schema of `sandbox.yaml`, for editors."""

from __future__ import annotations

from sandwright.documents.model import Schema
from sandwright.documents.schema import document_schema
from sandwright.policy.model import PolicyFile


def policy_schema() -> Schema:
    """The JSON Schema of one layer of a policy.

    Loading checks more: relations between fields, and their meaning on a host.
    """
    return document_schema(PolicyFile, "sandwright policy")
