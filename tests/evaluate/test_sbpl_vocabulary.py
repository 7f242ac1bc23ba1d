"""The vocabulary: a tree of operations without gaps, and names that mean one thing."""

from __future__ import annotations

import pytest

from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.vocabulary import vocabulary


def test_there_are_196_operations_of_14_4_and_four_that_are_gone() -> None:
    names = {operation.name for operation in vocabulary().operations.values()}
    assert len(names) == 200
    assert {"load-unsigned-code", "process-codesigning-status*"} < names


def test_every_operation_leads_to_a_decision() -> None:
    for name in vocabulary().operations:
        chain = vocabulary().chain(name)
        assert chain[-1].builtin in ("allow", "deny"), name
        assert all(step.builtin is None for step in chain[:-1]), name


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


def test_every_filter_can_be_made() -> None:
    arguments = {"bits": "#o4000", "flag": "#t", "address": "ip"}
    for name, kind in vocabulary().filters.items():
        constant = next(iter(kind.constants), "7")
        argument = constant if kind.argument == "integer" else arguments.get(kind.argument, '"x"')
        (rule,) = compile_profile(f"(version 1)(allow default ({name} {argument}))").rules
        assert rule.filters, name


def test_every_modifier_can_be_used() -> None:
    for name, kind in vocabulary().modifiers.items():
        argument = {"integer": "9", "string": '"x"'}.get(kind.argument, "")
        text = f"(version 1)({kind.action or 'deny'} signal (with {name} {argument}))"
        (rule,) = compile_profile(text).rules
        assert rule.has(kind.name), name


def test_every_operation_can_be_named_in_a_rule() -> None:
    for name, operation in vocabulary().operations.items():
        (rule,) = compile_profile(f"(version 1)(allow {name})").rules
        assert rule.operations == (operation.name,)
