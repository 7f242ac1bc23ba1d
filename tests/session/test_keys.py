"""Job control: keys and jobs of a real shell, for each method, as root and as another user.

Tests of launcher/source/init.c: job control inside.
"""

from __future__ import annotations

import os

import pytest
from _pytest.mark.structures import ParameterSet

from session.conftest import Project
from session.jobs import NOBODY, Place, place
from session.keys import (
    ACTIONS,
    FEW,
    Action,
    ctrl_z_and_fg,
    ends_by_a_signal,
    shell,
)
from support.thorough import THOROUGH, representative

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bash", "busybox", "setpriv"),
]
METHODS: dict[str, pytest.MarkDecorator | list[pytest.MarkDecorator]] = {
    "bwrap": pytest.mark.needs("bwrap"),
    "oci": pytest.mark.needs("runc"),
    "gvisor": pytest.mark.needs("runsc"),
    "docker": pytest.mark.needs("docker"),
    "podman": pytest.mark.needs("podman", "runc"),
    "landlock": [],
    "vm": pytest.mark.needs("bwrap", "linux.uml"),
    "user": [pytest.mark.needs("useradd"), pytest.mark.exclusive("accounts")],
}


OTHERS = ("bwrap", "oci", "gvisor", "landlock", "vm")


def _cell(method: str, uid: int) -> ParameterSet:
    return pytest.param(method, uid, marks=METHODS[method], id=f"{method}-{'user' if uid else 'root'}")


CELLS = [_cell(method, uid) for uid in (0, NOBODY) for method in METHODS if not uid or method in OTHERS]
"""Every method as root; these as another user, too, because the others have another user inside."""
EACH = ("bwrap-user", "oci-root", "gvisor-user", "docker-root", "podman-root", "landlock-user", "vm-root")
SOME = representative(CELLS, *EACH, "user-root")
"""Every method, with one of the users: for tests in which a method does the same for both."""


def _wrong(action: Action, given: Place) -> str:
    """The fault of an action in a separate shell; empty without one."""
    with shell([given.launcher], given.root, given.environ, given.before) as at:
        at.inner = given.inner
        before = at.line("stty -g")
        try:
            action(at)
            after = at.line("stty -g")
        except AssertionError as error:
            return str(error)
        at.line("trap - EXIT; jobs -p")
    return "" if after == before else f"the terminal is left as {after}, and was {before}"


@pytest.mark.parametrize(("method", "uid"), representative(CELLS, "bwrap-root", *EACH, "user-root"))
def test_keys_and_jobs(method: str, uid: int) -> None:
    """Each action runs in a separate shell."""
    actions = ACTIONS if THOROUGH or (method, uid) == ("bwrap", 0) else FEW
    if method == "landlock":  # it sees the host's zombies
        actions = tuple(each for each in actions if each is not ends_by_a_signal)
    found = {}
    with place(method, uid) as at:
        for action in actions:
            found[action.__name__] = _wrong(action, at)
        assert not any(found.values()), found


BESIDE_A_PROXY = ACTIONS if THOROUGH else tuple(dict.fromkeys((*FEW, ctrl_z_and_fg)))


@pytest.mark.needs("bwrap", "squid")
@pytest.mark.parametrize("action", BESIDE_A_PROXY, ids=lambda action: action.__name__)
def test_keys_and_jobs_beside_a_proxy(project: Project, action: Action) -> None:
    """Python stays as the launcher's parent: the suspend key stops both, and `fg` continues both."""
    settings = ("--set", "network.mode=proxy", "--set", "network.allow=[example.com]")
    launcher = [*project.command, "run", "--quiet", "--trust-policy", *settings, "--"]
    with shell(launcher, project.root, project.environ) as at:
        action(at)
