"""The JSON Schema of image definitions, for editors."""

from __future__ import annotations

from sandwright.documents.model import Schema
from sandwright.documents.schema import document_schema
from sandwright.image.definition import ONLY_PACKAGES, ImageDefinition


def definition_schema() -> Schema:
    """The JSON Schema of `image.yaml`."""
    return document_schema(
        ImageDefinition,
        "sandwright image definition",
        **{
            "if": {"properties": {"base": {"anyOf": [{"required": ["debian"]}, {"required": ["alpine"]}]}}},
            "then": {"required": ["configure", "packages"]},
            "else": {"properties": dict.fromkeys(ONLY_PACKAGES, False)},
        },
    )
