"""Renders profiles as JSON: for the engines, for `linux.seccomp` of an OCI configuration, and for gVisor.

What is rendered holds for given architectures and one set of capabilities, so that it needs neither `archMap`
nor `includes`, which the runtime specification does not have. Names that only some of the architectures know
may stand in it: the engines leave out what a machine does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sandwright.seccomp.abi import NATIVE, Architecture, numbers
from sandwright.seccomp.action import ALLOW, EPERM, Action, Kind
from sandwright.seccomp.model import DEFAULT, Alternative, SeccompProfile, Treatment

BOTH: tuple[Architecture, ...] = ("amd64", "arm64")

Json = dict[str, Any]


def render_oci(
    profile: SeccompProfile,
    *,
    arch: Sequence[Architecture] = BOTH,
    caps: Collection[str] = (),
    comments: bool = False,
) -> Json:
    """The profile as `linux.seccomp` of the OCI runtime specification, which Docker and Podman read too.

    `caps` is the bounding set of who runs under it. `comments` adds to each rule why it is there; Docker and
    Podman have a field for that, the specification has not. Every name is in one rule, or in rules that never
    overlap with another answer, so that their order does not matter.
    """
    treatments = _known(profile.treatments(caps), arch)
    rules = [*_whole_rules(treatments, comments=comments)]
    for name, treatment in treatments.items():
        for case in treatment.cases:
            comment = f"{treatment.group}: {case.reason}" if comments else ""
            rules += [_rule([name], case.action, one, comment=comment) for one in case.alternatives()]
    return {
        "architectures": [NATIVE[one].oci for one in arch],
        "defaultAction": DEFAULT.kind.oci,
        "defaultErrnoRet": DEFAULT.data,
        "syscalls": rules,
    }


def render_gvisor(
    profile: SeccompProfile, *, arch: Sequence[Architecture] = BOTH, caps: Collection[str] = ()
) -> Json:
    """The profile as runsc takes it, which applies it only when started with `--oci-seccomp`.

    runsc answers every ERRNO with EPERM and does not start with LOG, KILL_PROCESS, KILL_THREAD or NOTIFY
    (runsc/specutils/seccomp). So calls whose callers would be lost with EPERM are left to the sentry to
    answer: clone3, without which glibc makes threads only when told ENOSYS, and cases that refuse with
    another error. What is not granted gets EPERM, what the profile does not know too.
    """
    treatments = _known(profile.treatments(caps), arch)
    allowed = [
        name
        for name, treatment in treatments.items()
        if not treatment.cases
        and (treatment.action == ALLOW or profile.groups[treatment.group].left_to_sentry)
    ]
    rules = [_rule(allowed, ALLOW)]
    for name, treatment in treatments.items():
        for case in treatment.cases:
            if case.action != EPERM:
                rules += [_rule([name], ALLOW, alternative) for alternative in case.alternatives()]
    return {
        "architectures": [NATIVE[one].oci for one in arch],
        "defaultAction": Kind.ERRNO.oci,
        "syscalls": rules,
    }


def _known(treatments: Mapping[str, Treatment], arch: Sequence[Architecture]) -> dict[str, Treatment]:
    names = {name for one in arch for name in numbers(NATIVE[one])}
    return {name: treatment for name, treatment in treatments.items() if name in names}


def _whole_rules(treatments: Mapping[str, Treatment], *, comments: bool) -> Iterator[Json]:
    """A rule for each group of names that get the same answer whatever their arguments are."""
    grouped: dict[tuple[Action, str], list[str]] = {}
    for name, treatment in treatments.items():
        if not treatment.cases:
            group = treatment.group if comments else ""
            grouped.setdefault((treatment.action, group), []).append(name)
    order = sorted(
        grouped.items(), key=lambda item: (item[0][0].kind is not Kind.ALLOW, item[0][0].data, item[0][1])
    )
    for (action, group), names in order:
        comment = f"{group}: {treatments[names[0]].reason}" if comments else ""
        yield _rule(names, action, comment=comment)


def _rule(
    names: list[str], action: Action, alternative: Alternative | None = None, *, comment: str = ""
) -> Json:
    rule: Json = {"action": action.kind.oci, "names": names}
    if action.kind is Kind.ERRNO:
        rule["errnoRet"] = action.data
    if alternative is not None:
        rule["args"] = [
            {"index": index, "op": "SCMP_CMP_MASKED_EQ", "value": pattern.mask, "valueTwo": pattern.value}
            for index, pattern in sorted(alternative.items())
        ]
    if comment:
        rule["comment"] = comment
    return rule
