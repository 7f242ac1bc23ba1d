"""The allowed fields of config.json, as JSON Schema: those of the runtime-spec that our bundles use.

Written from the specification's text; other fields are refused, so that a misspelt one is found.
"""

from __future__ import annotations

from typing import Any

import jsonschema

CAPABILITIES = {"type": "array", "items": {"type": "string", "pattern": "^CAP_[A-Z_]+$"}, "uniqueItems": True}
UID = {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}
PATHS = {"type": "array", "items": {"type": "string", "pattern": "^/"}, "uniqueItems": True}
MAPPINGS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["containerID", "hostID", "size"],
        "additionalProperties": False,
        "properties": {"containerID": UID, "hostID": UID, "size": {**UID, "minimum": 1}},
    },
}


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


PROCESS = _object(
    ["args", "cwd", "user"],
    {
        "terminal": {"type": "boolean"},
        "user": _object(
            ["uid", "gid"],
            {"uid": UID, "gid": UID, "additionalGids": {"type": "array", "items": UID, "uniqueItems": True}},
        ),
        "args": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+=[^\0]*$"}},
        "cwd": {"type": "string", "pattern": "^/"},
        "capabilities": _object([], dict.fromkeys(["bounding", "effective", "permitted"], CAPABILITIES)),
        "rlimits": {
            "type": "array",
            "items": _object(
                ["type", "soft", "hard"],
                {
                    "type": {"type": "string", "pattern": "^RLIMIT_[A-Z]+$"},
                    "soft": {"type": "integer", "minimum": 0},
                    "hard": {"type": "integer", "minimum": 0},
                },
            ),
        },
        "noNewPrivileges": {"const": True},
    },
)
LINUX = _object(
    ["namespaces"],
    {
        "namespaces": {
            "type": "array",
            "uniqueItems": True,
            "items": _object(
                ["type"],
                {"type": {"enum": ["pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time"]}},
            ),
        },
        "maskedPaths": PATHS,
        "readonlyPaths": PATHS,
        "uidMappings": MAPPINGS,
        "gidMappings": MAPPINGS,
        "resources": _object(
            [],
            {
                "devices": {
                    "type": "array",
                    "items": _object(
                        ["allow"],
                        {
                            "allow": {"type": "boolean"},
                            "access": {"type": "string", "pattern": "^[rwm]{1,3}$"},
                        },
                    ),
                }
            },
        ),
    },
)
CONFIG = _object(
    ["ociVersion", "root", "process"],
    {
        "ociVersion": {"type": "string", "pattern": r"^1\.\d+\.\d+$"},
        "process": PROCESS,
        "root": _object(
            ["path"],
            {"path": {"type": "string", "pattern": "^[^/\0][^\0]*$"}, "readonly": {"type": "boolean"}},
        ),
        "hostname": {"type": "string"},
        "mounts": {
            "type": "array",
            "items": _object(
                ["destination"],
                {
                    "destination": {"type": "string", "pattern": "^/"},
                    "type": {"type": "string"},
                    "source": {"type": "string"},
                    "options": {"type": "array", "items": {"type": "string", "minLength": 1}},
                },
            ),
        },
        "annotations": {
            "type": "object",
            "propertyNames": {"minLength": 1},
            "additionalProperties": {"type": "string"},
        },
        "linux": LINUX,
    },
)

_VALIDATOR = jsonschema.Draft202012Validator(CONFIG)


def faults(config: object) -> list[str]:
    """The faults of a configuration, one line per fault."""
    return [f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(config)]
