"""The stand-ins for Apple's own profiles: they compile, give the reported rules, and are marked as such."""

from __future__ import annotations

import pytest

from sandwright.evaluate.sbpl import Evaluator, FileImporter, compile_profile
from sandwright.evaluate.sbpl.imports import APPROXIMATE
from sandwright.evaluate.sbpl.request import Resource

HEAD = "(version 1)\n(deny default)\n"


def _decide(profile: str, operation: str, resource: Resource) -> bool:
    compiled = compile_profile(HEAD + profile, importer=FileImporter())
    assert all(each.file.endswith(APPROXIMATE) for each in compiled.imports)
    assert compiled.imports
    return Evaluator(compiled).decide(operation, resource).allowed


@pytest.mark.parametrize(
    ("operation", "resource", "allowed"),
    [
        ("file-read-data", {"path": "/"}, True),
        ("file-read-data", {"path": "/System/Library/CoreServices/x"}, True),
        ("file-map-executable", {"path": "/usr/lib/libSystem.B.dylib"}, True),
        ("file-read-metadata", {"path": "/tmp", "vnode-type": "SYMLINK"}, True),
        ("file-read-data", {"path": "/Users/u/x"}, False),
        ("file-read-data", {"path": "/etc/services"}, True),
        ("file-write-data", {"path": "/dev/null"}, True),
        ("file-write-data", {"path": "/dev/random"}, False),
        ("file-ioctl", {"path": "/dev/dtracehelper"}, True),
        ("sysctl-read", {"sysctl-name": "kern.procargs2"}, True),
        ("mach-lookup", {"global-name": "com.apple.system.logger"}, True),
        ("mach-lookup", {"global-name": "com.apple.nehelper"}, False),
        ("network-outbound", {"unix": "true", "path": "/private/var/run/syslog"}, True),
    ],
)
def test_what_importing_system_gives(operation: str, resource: Resource, allowed: bool) -> None:
    assert _decide('(import "system.sb")', operation, resource) is allowed


@pytest.mark.parametrize(
    ("call", "operation", "resource"),
    [
        ("(system-network)", "mach-lookup", {"global-name": "com.apple.nehelper"}),
        ("(system-network)", "system-socket", {"socket-domain": "AF_ROUTE"}),
        ("(system-graphics)", "iokit-open", {"iokit-registry-entry-class": "IOSurfaceRootUserClient"}),
    ],
)
def test_procedures_give_only_when_they_are_called(call: str, operation: str, resource: Resource) -> None:
    assert not _decide('(import "system.sb")', operation, resource)
    assert _decide(f'(import "system.sb")\n{call}', operation, resource)


@pytest.mark.parametrize(
    ("operation", "resource", "allowed"),
    [
        ("file-read-metadata", {"path": "/Users/u/x"}, True),
        ("file-read-data", {"path": "/Users/u/x"}, False),
        ("sysctl-read", {"sysctl-name": "hw.ncpu"}, True),
        ("sysctl-write", {"sysctl-name": "hw.ncpu"}, False),
    ],
)
def test_what_importing_bsd_gives(operation: str, resource: Resource, allowed: bool) -> None:
    assert _decide('(import "bsd.sb")', operation, resource) is allowed
