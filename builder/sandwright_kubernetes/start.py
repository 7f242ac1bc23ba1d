"""Runs a command as a Job of a rendered sandbox, from this process: the counterpart of `launch`.

Its words are a directory of artifacts, and the command. The command's streams come back as one, on standard
output; it reads standard input. Where both are a terminal, it has one. It exits as the command does: with 124
when its time was up, and with 125 when it was not run as it was rendered, its end is unknown, or it ended
with 0 and a part of its output was lost. A signal ends the Job first. From a Pod whose time was up, or that
was lost (evicted, deleted), no change comes back to the project.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import yaml

from sandwright.environment import SESSION
from sandwright.errors import HostError, SandwrightError
from sandwright.foreground import on_terminal
from sandwright.signalling import identity
from sandwright.streams import write_all
from sandwright.visible import message
from sandwright_kubernetes import admission
from sandwright_kubernetes.connection import ApiRefused, Connection, Json, connect
from sandwright_kubernetes.feeding import is_fed, may_attach, start_feeding, with_input
from sandwright_kubernetes.jobrun import JobRun, TimeIsUp, with_command
from sandwright_kubernetes.records import JobRecord, owner
from sandwright_kubernetes.sync import REGISTRY, RIGHTS
from sandwright_kubernetes.sync.transfer import ProjectTransfer, prepared
from sandwright_kubernetes.terminal import converse, with_terminal

REFUSED = 125
TIME_IS_UP = 124
UNKNOWN = (
    "whether this cluster's network enforces NetworkPolicy is not known; where it does not, more than the "
    "proxy is reached"
)
UNFILTERED = (
    "whether the node's gVisor takes filters is not known; without `oci-seccomp` in the settings of runsc "
    "there is none"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST = 2000


class _Signalled(BaseException):
    """A signal that ends the run."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(words: Sequence[str]) -> int:
    """Run a command; give the exit status."""
    directory, *argv = words
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        return run(Path(directory), argv)
    except _Signalled as signalled:
        return 128 + signalled.number
    except SandwrightError as error:
        notify(error.shown())
        return TIME_IS_UP if isinstance(error, TimeIsUp) else REFUSED


def run(directory: Path, argv: Sequence[str]) -> int:
    """Run it; give its status. Raise SandwrightError, and _Signalled when the Job is gone."""
    connection = connect()
    documents = read_manifests(directory)
    if not os.environ.get(REGISTRY):
        return _run_job(connection, documents, argv, None)

    with prepared(directory, documents["job.yaml"]) as transfer:
        if transfer is not None:
            documents["job.yaml"] = transfer.job
        return _run_job(connection, documents, argv, transfer)


def _run_job(
    connection: Connection, documents: dict[str, Json], argv: Sequence[str], transfer: ProjectTransfer | None
) -> int:
    job = documents["job.yaml"]
    namespace = str(job["metadata"]["namespace"])
    talks = on_terminal() and _may_attach(connection, namespace, "has no terminal")
    fed = is_fed() and _may_attach(connection, namespace, "reads nothing")
    if talks or fed:
        job = documents["job.yaml"] = with_terminal(job) if talks else with_input(job)
    check_cluster(connection, documents, RIGHTS if transfer is not None else ())
    for line in transfer.send() if transfer is not None else ():
        notify(line)
    session = os.environ.get(SESSION.name, "") or secrets.token_hex(8)
    name = f"{job['metadata']['name']}-{secrets.token_hex(4)}"
    made = with_command(job, argv, name=name, session=session, owner=owner())
    cluster = connection.place
    record = JobRecord(session, name, namespace, cluster.kubeconfig, cluster.context, identity())
    record.write()
    follow = converse if talks else _fed if fed else JobRun.follow
    return _run_to_end(JobRun(connection, made), record, transfer, follow)


def _may_attach(connection: Connection, namespace: str, otherwise: str) -> bool:
    if may_attach(connection, namespace):
        return True
    notify(f"the command {otherwise}: in the namespace {namespace} we may not: get and create pods/attach")
    return False


def _fed(running: JobRun, write: Callable[[bytes], None]) -> None:
    start_feeding(running.connection, running.pod)
    running.follow(write)


def _run_to_end(
    running: JobRun,
    record: JobRecord,
    transfer: ProjectTransfer | None,
    follow: Callable[[JobRun, Callable[[bytes], None]], None],
) -> int:
    """Run a Job to its removal; its changes come back unless the time was up or its Pod was lost."""
    try:
        running.create()
        running.await_start()
        follow(running, partial(write_all, 1))
        ended = running.end()
        if ended.reason == "OOMKilled":
            notify("the command was killed: it reached the memory limit of the policy")
        conflicts = transfer.download(running) if transfer is not None else []
        for line in conflicts:
            notify(line)
        return ended.status or (REFUSED if conflicts else 0)
    finally:
        for number in _SIGNALS:  # a second Ctrl-C is not to leave the Job
            signal.signal(number, signal.SIG_IGN)
        try:
            running.remove()
            record.forget()
        except HostError as error:
            notify(f"{error}; `sandwright cleanup` removes the rest")


def check_cluster(
    connection: Connection, documents: dict[str, Json], rights: Sequence[tuple[str, str, str]] = ()
) -> None:
    """Check as much as possible before the Job is created, including additional `rights`.

    Raise NothingRan, ApiUnreachable.
    """
    job = documents["job.yaml"]
    namespace = str(job["metadata"]["namespace"])
    around = admission.manifests_of(documents)
    try:
        admission.check_rights(connection, namespace, around, rights)
        admission.apply_around(connection, namespace, around)
        if admission.is_proxied(around):
            admission.check_policies(connection, namespace, around)
            notify(UNKNOWN)
        if "runtimeClassName" in job["spec"]["template"]["spec"]:
            notify(UNFILTERED)
        admission.check_closed(connection, namespace)
        admission.check_claims(connection, namespace, job["spec"]["template"]["spec"])
        admission.check_admitted(connection, namespace, job)
    except ApiRefused as error:
        raise admission.NothingRan(f"the cluster refuses an object that a run needs: {error}") from error


def read_manifests(directory: Path) -> dict[str, Json]:
    """The rendered manifests, by the name of their file."""
    found = {}
    for path in sorted(directory.glob("*.yaml")):
        found[path.name] = yaml.load(path.read_bytes(), yaml.CSafeLoader)
    return found


def notify(line: str) -> None:
    """Report it to the caller."""
    os.write(2, f"sandbox: {message(line)[:_LONGEST]}\n".encode(errors="replace"))


def _raise(number: int, _: FrameType | None) -> NoReturn:
    raise _Signalled(number)
