"""Plans the inspecting proxy of a policy: the haproxy that is here, its configuration and its restriction."""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from pathlib import Path

import sandwright
from sandwright import process
from sandwright.egress.proxy_plan import AUTHORITIES, FILTER, OUT, InspectionPlan, SquidAccount
from sandwright.errors import HostError, ToolMissing, UsageError
from sandwright.host import collect_host
from sandwright.launcher.restrict import Restriction
from sandwright.policy.facts import CERTIFICATES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.haproxy import filter_rules, haproxy_configuration, lua_programs
from sandwright.render.proxyfacts import DIRECTORY
from sandwright.render.restricted import host_architecture, restricting_launcher
from sandwright.seccomp.closing import closing_filter
from sandwright.setup.requirements import how_to_get

OLDEST = (2, 6)
"""The first version of haproxy for which the configuration is written."""


def plan_inspection(policy: ResolvedPolicy, account: SquidAccount | None) -> InspectionPlan | None:
    """The plan for the hosts of `network.http`; None without any.

    Raise ToolMissing without haproxy, HostError for one that is too old, and UsageError if it is unknown
    which CA certificates to trust.
    """
    if not policy.network.http:
        return None
    authorities = policy.facts.texts.get(CERTIFICATES, "")
    if not authorities:
        raise UsageError("network.http needs network.ca: host, and certificates of authorities on the host")
    bundle = authorities.partition("\n")[0].removeprefix("# ")
    if policy.filesystem.tree.changes_host(bundle):
        raise UsageError(
            f"network.http: {bundle} may be written by the sandbox, which could then choose whom to trust"
        )
    program, filtered = _find_haproxy(), filter_rules(policy)
    launcher, seccomp = restricting_launcher(platform.machine())
    restriction = Restriction(
        read=(f"{DIRECTORY}/http",),
        execute=(program,),
        connect=(OUT, FILTER) if filtered else (OUT,),
        account=None if account is None else (account.uid, account.gid),
        die_with_parent=True,
    )
    filters = {
        "seccomp.bpf": seccomp,
        # Denies protocols that Landlock does not cover: UDP, multipath TCP, TCP fast open.
        "closed.bpf": closing_filter(host_architecture(platform.machine()), network=False, listens=True),
    }
    words = restriction.argv(launcher, *(f"{DIRECTORY}/http/{name}" for name in filters))
    return InspectionPlan(
        haproxy_configuration(policy, f"{DIRECTORY}/http/{AUTHORITIES}"),
        lua_programs(policy),
        tuple((each.host, each.port) for each in policy.network.http),
        authorities,
        (*words, program, "-db", "-f", f"{DIRECTORY}/http/haproxy.cfg"),
        {name: content.hex() for name, content in filters.items()},
        has_secrets=bool(policy.credentials.http),
        filtered=filtered,
        filter_command=_filter_command(launcher, tuple(filters)) if filtered else (),
    )


def _filter_command(launcher: str, filters: tuple[str, ...]) -> tuple[str, ...]:
    """The words that start the filter of MCP messages, but for its last: this Python, which may read itself.

    It stays the caller's account, without capabilities: another one may not be able to read this Python.
    """
    package = Path(sandwright.__file__).parent
    program = os.path.realpath(sys.executable)
    library = sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})
    restriction = Restriction(
        read=(str(Path(library).parent), str(package)),
        execute=(program,),
        connect=(OUT,),
        die_with_parent=True,
    )
    words = restriction.argv(launcher, *(f"{DIRECTORY}/http/{name}" for name in filters))
    return (*words, program, "-I", "-S", "-X", "utf8", "-c", _CODE, str(package))


_CODE = (
    "import sys, types; sandwright = sys.modules['sandwright'] = types.ModuleType('sandwright'); "
    "sandwright.__path__ = [sys.argv[1]]; from sandwright.egress.mcp_filter import main; main()"
)
"""It reads the package's directory alone, not the files beside it."""


def _find_haproxy() -> str:
    program = process.find("haproxy")
    if program is None:
        get = how_to_get("haproxy", collect_host().package_manager)
        raise ToolMissing(
            "haproxy", "it reads the requests of network.http" + f"; get it with: {get}" * bool(get)
        )
    text = process.run(program, "-v", timeout=10).text
    version = re.search(r"version ([0-9]+)\.([0-9]+)", text)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise HostError(f"{program}: {text.splitlines()[0]}; haproxy 2.6 or newer is needed")
    return program
