"""The support of each method for a policy, and the probes that prove it: from declarations and catalogue."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sandwright.methods import METHODS, registry
from sandwright.policy.declaration import REFUSED
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import FEATURES
from sandwright.reference.markdown import code, table
from sandwright.verify.catalogue import catalogue
from sandwright.verify.expected import expected
from sandwright.verify.fixture import Fixture
from sandwright.verify.listeners import CanaryListeners
from sandwright.verify.matrix import METHODS as PROVED
from sandwright.verify.probe import Probe
from sandwright.verify.reserved_state import ReservedState
from sandwright.verify.subject import Canaries, ProofSubject
from sandwright.verify.work.probe import work_probes

POLICY = """\
schema: 1
extends: [default]
environment: {set: {CI: "1"}}
resources: {memory: 1GiB, cpus: 1, pids: 256, files: 1024, time: 1h}
"""
POLICIES = (
    "network: {mode: none}",
    "network: {mode: proxy, allow: [example.org]}",
    "network: {mode: host}\nfilesystem: {tmp: shared, home: throwaway}",
)
"""The policies that the probes are listed for: they use common features. Rules of paths get their own
probes."""

VERIFIED = tuple(name for name in PROVED if name in METHODS)
"""The methods of policies that `verify` proves; it knows some under further names."""

GRANTED: Mapping[str, tuple[str, ...]] = {
    "filesystem.read-all": ("files/read",),
    "filesystem.read": ("files/read",),
    "filesystem.write": ("files/write", "files/replace"),
    "filesystem.home": ("files/home",),
    "filesystem.tmp-private": ("files/temporary",),
    "filesystem.tmp-shared": ("files/temporary", "files/temporary-of-host"),
    "filesystem.protect": ("files/protected", "files/protected-nested", "links/move-repository"),
    "network.proxy": ("network/proxy",),
    "network.host": ("network/host",),
    "network.http": ("network/requests-allowed", "network/requests-refused", "network/requests-tools"),
    "mcp.tools": ("network/stdio-allowed", "network/stdio-refused", "network/stdio-answers"),
    "environment.pass": ("environment/passed",),
    "environment.set": ("environment/set",),
    "workspace": tuple(
        f"workspace/{name}"
        for name in ("project-unchanged", "no-names", "held-tools", "held-git", "held-odd")
    ),
    "user.mapping": ("files/write",),
    "credentials.shims": tuple(f"secrets/{name}" for name in ("two-tokens", "refused", "inside", "outside")),
    "credentials.http": ("network/requests-secret", "network/requests-signature"),
    "credentials.cloud": ("secrets/cloud", "secrets/cloud-off"),
    "resources.time": ("lifecycle/time",),
}
"""By feature: probes that show that it works, which no table of denials knows."""

RUNS: Mapping[str, str] = {
    "network/requests-allowed": "requests that rules allow are sent on",
    "network/requests-refused": "requests that no rule allows, or with two readings, are refused",
    "network/requests-tools": "messages to an MCP server that call no listed tool are refused",
    "network/requests-secret": "the secret goes to requests with the placeholder or without the header",
    "network/requests-signature": "requests are signed with a key only if the placeholder has signed them",
    "network/stdio-allowed": (
        "messages that the policy allows reach the server of MCP, and its answers the client"
    ),
    "network/stdio-refused": "messages that call no listed tool do not reach the server of MCP",
    "network/stdio-answers": (
        "unlisted tools, requests of the server and answers to refused calls do not reach the client"
    ),
    "workspace/project-unchanged": "programs change a copy, and no byte of the project",
    "workspace/no-names": "no name appears in the project, not even for a moment",
    "workspace/lists-changes": "programs of a review list its changes, and name no other workspace",
    "workspace/held-tools": "names that tools run by themselves are not applied unless named",
    "workspace/held-git": "what decides which programs Git runs is not applied unless named",
    "workspace/held-odd": "odd files and names are not applied unless named",
    "lifecycle/starts": "the sandbox starts, and the probe program runs in it to its end",
    "lifecycle/exit-status": "the launcher exits with the command's exit status",
    "lifecycle/signal": "if signal N ends the command, the exit status is 128 + N",
    "lifecycle/changed": "a changed artifact is not executed",
    "lifecycle/time": "the time limit ends a run with all its processes",
    "lifecycle/killed": "nothing is left after SIGKILL to the launcher",
    "lifecycle/terminated": "nothing is left after SIGTERM to the launcher",
    "lifecycle/denied-later": "a denied file that the host creates during a run is hidden or ends the run",
    "lifecycle/ghosts": "no mount point is left in the project",
    "secrets/two-tokens": "the program of a shim gets the sandbox's token, not the host's",
    "secrets/refused": "shim commands that the policy does not allow are refused",
    "secrets/inside": "neither token is visible in the sandbox: not in variables, files, or /proc",
    "secrets/outside": "neither token is in the run's arguments, metadata, logs or files on the host",
    "secrets/gone": "without a bridge a shim exits with 125, and no program runs in its place",
    "secrets/required": "without a bridge the sandbox does not start",
    "secrets/cloud": "with `credentials.cloud: readonly`, credentials are readable and not writable",
    "secrets/cluster": "a policy can make `~/.kube/config` readable",
    "secrets/cloud-off": "by default no cloud credentials are readable",
    "environment/arguments": "no value of a variable appears in the arguments of a process on the host",
}
"""Probes of a whole run, which are not attempts in the sandbox."""

_LEVELS: Mapping[str, str] = {
    "exact": "exact",
    "stricter": "stricter",
    "partly": "**partly**",
    "cannot": "**cannot**",
    "unused": "does not apply",
}


def texts() -> dict[str, str]:
    """The generated parts of the pages about methods, by name."""
    found = {
        "matrix": matrix(),
        "walls": isolation_layers(),
        "probes": probes_text(),
        "work": work_text(),
        "denials": denials(),
    }
    for method in METHODS:
        found[f"support {method}"] = support(method)
    return found


def matrix() -> str:
    """The table of all features, with each method's level of enforcement."""
    rows = [
        [code(feature), *(_LEVELS[registry.declaration(method).of(feature).level] for method in METHODS)]
        for feature in FEATURES
    ]
    return table(["feature", *METHODS], rows)


def isolation_layers() -> str:
    """The barriers between a command and the user's files, and the impact of a kernel bug, by method."""
    rows = []
    for method in METHODS:
        properties = registry.properties(method)
        root = "the image's" if properties.root == "image" else "the host's"
        stands = (
            "; ".join(f"{number}. {wall}" for number, wall in enumerate(properties.isolation_layers, 1))
            or "nothing"
        )
        rows.append(
            [
                code(method),
                root,
                "its own" if properties.own_kernel else "the host's",
                stands,
                properties.kernel_exploit_impact,
            ]
        )
    return table(["method", "root", "kernel", "barriers", "impact of a kernel bug"], rows)


def denials() -> str:
    """The kinds of denials that each method can report after a run."""
    rows = []
    for refused, about in REFUSED.items():
        reasons = {method: registry.declaration(method).why_unreported(refused) for method in METHODS}
        for reason in sorted(set(reasons.values()), key=list(reasons.values()).index):
            names = _joined(each for each, reason_of in reasons.items() if reason_of == reason)
            rows.append([about, names, f"no: {reason}" if reason else "yes"])
    return table(["denial", "methods", "reported"], rows)


def _joined(names: Iterable[str]) -> str:
    return ", ".join(code(each) for each in names)


def support(method: str) -> str:
    """The table of a method's enforcement of each feature: level, reason, and the probes that prove it."""
    proved = _proved_by(method) if method in VERIFIED else {}
    rows = []
    for feature, about in FEATURES.items():
        declared = registry.declaration(method).of(feature)
        level = (
            f"{_LEVELS[declared.level]}: {declared.reason}" if declared.reason else _LEVELS[declared.level]
        )
        names = ", ".join(map(code, proved.get(feature, ()))) if declared.level != "cannot" else ""
        rows.append([code(feature), about, level, *([names or "no probe"] if method in VERIFIED else [])])
    columns = ["feature", "meaning", f"enforced by {method}"]
    return table(columns + ["proved by"] * (method in VERIFIED), rows)


def probes_text() -> str:
    """Every probe with its claim, and the answers that each method must give where they differ."""
    found = dict(RUNS)
    for method in VERIFIED:
        found |= {probe.name: probe.about for probe in _probes(method) if probe.name not in found}
    return table(["probe", "proves that"], [[code(name), about] for name, about in sorted(found.items())])


def work_text() -> str:
    """Every probe of work with its steps, and the methods that can't run it."""
    rows = [
        [
            code(probe.name),
            probe.about,
            "; ".join(f"{name}: {limit.reason}" for name, limit in probe.cannot.items()),
        ]
        for probe in work_probes()
    ]
    return table(["probe", "task", "not possible with"], rows)


def probe_names(method: str) -> frozenset[str]:
    """The names of the probes of a method, but for those made from the paths that a policy names."""
    return frozenset(probe.name for probe in _probes(method)) | RUNS.keys()


def _proved_by(method: str) -> dict[str, list[str]]:
    """By feature: the probes with a step that claims it."""
    found: dict[str, list[str]] = {}
    there = probe_names(method)
    for feature, names in GRANTED.items():
        found[feature] = [name for name in names if name in there]
    for probe in _probes(method):
        for feature in sorted(_features(probe, method)):
            if probe.name not in found.setdefault(feature, []):
                found[feature].append(probe.name)
    return {feature: _summed(names) for feature, names in found.items()}


def _summed(names: list[str]) -> list[str]:
    """Names, of a family with very many only its beginning."""
    many = {family for family in {_family(name) for name in names} if _count(names, family) > _MANY}
    short = [
        f"{_family(name)}/… ({_count(names, _family(name))})" if _family(name) in many else name
        for name in names
    ]
    return list(dict.fromkeys(short))


_MANY = 8


def _family(name: str) -> str:
    return name.partition("/")[0]


def _count(names: list[str], family: str) -> int:
    return sum(_family(name) == family for name in names)


def _features(probe: Probe, method: str) -> Iterator[str]:
    for step in probe.steps:
        feature = expected(step.claim, method).feature
        if feature:
            yield feature


_PLANTED = ReservedState((Path("/planted/sessions"),), (Path("/planted/state"),), (Path("/planted/lib"),))


@functools.cache
def _probes(method: str) -> tuple[Probe, ...]:
    """The catalogue for an invented host. No file is created and no port is opened on this machine."""
    fixture = Fixture(Path("/planted"), "word", "plain", Path("/hidden"), Path("/runtime"))
    mac = registry.properties(method).system == "darwin"
    home = "/Users/ada" if mac else "/home/ada"
    project = f"{home}/app"
    places = ("/", str(Path(home).parent), home, project)
    facts = HostFacts(
        os="darwin" if mac else "linux",
        home=home,
        project=project,
        entries=dict.fromkeys(places, HostEntry("directory")),
    )
    paths = (fixture.read / "socket", fixture.read / "later", fixture.write / "host-socket")
    listeners = CanaryListeners(1, 2, "192.0.2.1", 3, *paths, "abstract", ())
    found: dict[str, Probe] = {}
    for text, uid in itertools.product(POLICIES, (facts.uid, 0)):
        policy = MergedPolicy.from_text(f"{POLICY}{text}\n").resolve(replace(facts, uid=uid))
        canaries = Canaries({"LANG": "C"}, {"TOKEN": "t"})
        remote = "none is started" if registry.properties(method).copies_project else ""
        subject = ProofSubject(
            method, policy, fixture, listeners, canaries, remote, _PLANTED, word="word", host_process=1
        )
        found |= {probe.name: probe for probe in catalogue(subject) if probe.name not in found}
    return tuple(probe for name, probe in found.items() if ": " not in name)
