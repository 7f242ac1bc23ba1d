"""A command that root runs owns the host's devices, and changes none of them for the rest of the host.

Tests of launcher/source/devices.c.
"""

from __future__ import annotations

import os

import pytest

from session.conftest import Project
from session.hostdevices import SCRIPT, same_devices


@pytest.mark.needs("bwrap")
@pytest.mark.skipif(os.getuid() != 0, reason="nobody else may change them")
def test_devices_of_the_host_stay_as_they_are(project: Project) -> None:
    project.policy.write_text("schema: 1\nmethod: bwrap\n")
    with same_devices(), project.start("sh", "-c", SCRIPT) as running:
        out, errors = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, b"over\n"), errors
    assert errors.count(b"Read-only file system") == 6, errors
