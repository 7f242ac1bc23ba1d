"""The vocabulary: a tree of operations without gaps, and names that mean one thing."""

from __future__ import annotations

import pytest

from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.vocabulary import vocabulary

OPERATIONS = sorted(vocabulary().operations)
FILTERS = sorted(vocabulary().filters)


def test_there_are_196_operations_of_14_4_and_four_that_are_gone() -> None:
    names = {operation.name for operation in vocabulary().operations.values()}
    assert len(names) == 200
    assert {"load-unsigned-code", "process-codesigning-status*"} < names


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_leads_to_a_decision(name: str) -> None:
    chain = vocabulary().chain(name)
    assert chain[-1].builtin in ("allow", "deny")
    assert all(step.builtin is None for step in chain[:-1])


CHAINS = {
    "file-read-data": ["file-read-data", "file-read*", "file*", "default"],
    "file-mount-update": ["file-mount-update", "file-mount", "file*", "default"],
    "network-bind": ["network-bind", "network-inbound", "network*", "default"],
    "process-exec": ["process-exec*", "process*", "default"],
    "managed-preference-read": [
        "managed-preference-read",
        "user-preference-read",
        "user-preference*",
        "default",
    ],
    "ipc-posix-shm-write-data": [
        "ipc-posix-shm-write-data",
        "ipc-posix-shm-write*",
        "ipc-posix-shm*",
        "ipc-posix*",
        "ipc*",
        "default",
    ],
    "process-info-pidinfo": ["process-info-pidinfo", "process-info*"],
    "nvram-get": ["nvram-get", "nvram*"],
    "file-map-executable": ["file-map-executable"],
    "file-write-setugid": ["file-write-setugid"],
    "file-link": ["file-link"],
}


@pytest.mark.parametrize(("name", "chain"), CHAINS.items(), ids=CHAINS)
def test_chain(name: str, chain: list[str]) -> None:
    assert [step.name for step in vocabulary().chain(name)] == chain


TERMINAL_ALLOW = {
    "darwin-notification-post",
    "dynamic-code-generation",
    "file-clone",
    "file-link",
    "file-lock",
    "file-map-executable",
    "file-test-existence",
    "fs-quota*",
    "fs-snapshot-mount",
    "iokit-get-properties",
    "iokit-open-service",
    "mach-bootstrap",
    "mach-cross-domain-lookup",
    "mach-derive-port",
    "mach-kernel-endpoint",
    "mach-task-special-port*",
    "necp-client-open",
    "nvram*",
    "process-codesigning",
    "process-info*",
    "process-info-codesignature",
    "socket-ioctl",
    "socket-option-get",
    "socket-option-set",
    "syscall-unix",
    "syscall-mach",
    "syscall-mig",
    "system-fcntl",
    "system-mac-syscall",
    "system-memorystatus-control",
    "system-necp-client-action",
    "system-privilege",
    "process-exec-update-label",
    "xpc-message-send",
}


def test_what_deny_default_does_not_deny() -> None:
    allowed = {item.name for item in vocabulary().operations.values() if item.builtin == "allow"}
    assert allowed == TERMINAL_ALLOW


def test_what_allow_default_does_not_allow() -> None:
    denied = {item.name for item in vocabulary().operations.values() if item.builtin == "deny"}
    assert denied == {"default", "file-write-setugid", "job-creation", "storage-class-map"}


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_can_be_made(name: str) -> None:
    kind = vocabulary().filters[name]
    constant = next(iter(kind.constants), "7")
    argument = {"integer": constant, "bits": "#o4000", "flag": "#t", "address": "ip"}.get(
        kind.argument, '"x"'
    )
    (rule,) = compile_profile(f"(version 1)(allow default ({name} {argument}))").rules
    assert rule.filters


@pytest.mark.parametrize("name", sorted(vocabulary().modifiers))
def test_every_modifier_can_be_used(name: str) -> None:
    kind = vocabulary().modifiers[name]
    argument = {"integer": "9", "string": '"x"'}.get(kind.argument, "")
    (rule,) = compile_profile(f"(version 1)({kind.action or 'deny'} signal (with {name} {argument}))").rules
    assert rule.has(kind.name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_can_be_named_in_a_rule(name: str) -> None:
    (rule,) = compile_profile(f"(version 1)(allow {name})").rules
    assert rule.operations == (vocabulary().operations[name].name,)
