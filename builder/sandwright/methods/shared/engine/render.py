"""Renders the artifacts for a sandbox of Docker or Podman: arguments, accounts, filter, service, launcher.

Both engines get the same container (`container`), spelled for each (`arguments`) and for Compose (`compose`),
and our own filter of system calls: their defaults differ from each other, and over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sandwright.methods.shared.engine.arguments import run_arguments
from sandwright.methods.shared.engine.compose import compose_file
from sandwright.methods.shared.engine.container import CLIENTS, Container, container, network_files
from sandwright.methods.shared.engine.plan import engine_launcher, engine_plan
from sandwright.policy.names import EngineName
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.accounts import group_file, passwd_file
from sandwright.render.artifact import Artifact, json_artifact
from sandwright.render.authorities import authority_store
from sandwright.render.filters import oci_filter
from sandwright.render.mount_watch import engine_watch
from sandwright.render.mounts import MountPlan, mount_plan
from sandwright.render.proxy import ProxyPlace, render_proxy


def render_engine(policy: ResolvedPolicy, engine: EngineName) -> tuple[Artifact, ...]:
    """`seccomp.json`, `compose.yaml`, `launch`, its plan or (on macOS) variables, files over the image's.

    Those are `passwd` and `group`, unless `user.mapping` is off, and `hosts` and `resolv.conf`, but in the
    host's network. Raise RenderError for a value that cannot be passed to the engine, DocumentError for a
    seccomp profile from a file that is none.
    """
    plan = mount_plan(policy, root="image")
    made = container(policy, plan, engine)
    files = (
        _seccomp(policy, made),
        *account_files(made),
        *host_files(made),
        *proxy_files(policy),
        *engine_watch(policy, plan),
        *authority_store(policy),
    )
    compose = _compose(policy, plan, made)
    done = engine_plan(policy, plan, made, run_arguments(made), None)
    return (*files, compose, *engine_launcher(policy, done, files))


def _seccomp(policy: ResolvedPolicy, made: Container) -> Artifact:
    """In the host's network there are its abstract sockets."""
    filter_ = oci_filter(policy, host_sockets=made.network == "host", caps=made.capabilities)
    return json_artifact("seccomp.json", filter_, "the filter of system calls")


def proxy_files(policy: ResolvedPolicy) -> Iterator[Artifact]:
    """The directory that is mounted over /etc/squid in the proxy's image, which has squid and its pages."""
    if policy.network.mode == "proxy":
        squid_place = ProxyPlace(
            log="/dev/stdout",
            cache_log="/dev/stderr",
            errors="/etc/squid/errors",
            listen="0.0.0.0",  # noqa: S104 - in a separate container
            clients_file=CLIENTS,
        )
        yield from (replace(each, name=f"proxy/{each.name}") for each in render_proxy(policy, squid_place))


def account_files(made: Container) -> Iterator[Artifact]:
    """The caller as accounts of the container, unless `user.mapping` is off."""
    if made.account is not None:
        yield Artifact("passwd", passwd_file(made.account), "the accounts, over the image's /etc/passwd")
        yield Artifact("group", group_file(made.account), "their groups, over the image's /etc/group")


def host_files(made: Container) -> Iterator[Artifact]:
    """The names of hosts, but in the host's network."""
    for name, content in network_files(made).items():
        yield Artifact(name, content, f"over the image's and the engine's /etc/{name}")


def _compose(policy: ResolvedPolicy, plan: MountPlan, made: Container) -> Artifact:
    text = compose_file(policy, plan, made)
    return Artifact("compose.yaml", text.encode(), "the same as a service of Compose")
