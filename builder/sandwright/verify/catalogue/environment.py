"""Probes of variables, secrets, and everything else that a process inherits."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.policy.secretnames import why_secret
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.catalogue.files import reads_plain
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family."""
    environment, canaries = subject.policy.environment, subject.canaries
    secrets = tuple(value.encode() for value in canaries.withheld.values())
    control = _arrival_control(subject)
    yield _probe(
        "withheld",
        f"variables that the policy doesn't pass don't arrive: {', '.join(canaries.withheld)}",
        *(_withheld(name, value, subject) for name, value in canaries.withheld.items()),
        ProbeStep(attempt("environment"), "works", lacks=secrets, private=True),
        controls=control,
    )
    if canaries.passed:
        yield _probe(
            "passed",
            f"variables that the policy passes arrive as they are: {', '.join(canaries.passed)}",
            *(
                ProbeStep(attempt("environment", name), "works", value=value.encode())
                for name, value in canaries.passed.items()
            ),
        )
    if environment.set:
        yield _probe(
            "set",
            f"variables have the policy's values: {', '.join(environment.set)}",
            *(
                ProbeStep(
                    attempt("environment", name),
                    "works",
                    value=value.encode("utf-8", "surrogateescape"),
                    private=bool(why_secret(name)),
                )
                for name, value in environment.set.items()
            ),
        )
    if subject.linux:
        yield from _inherited(secrets, control)


def _withheld(name: str, value: str, subject: ProofSubject) -> ProbeStep:
    """A probe that a variable is not passed.

    If variables are never passed, one with this name may be the image's.
    """
    if subject.image_root and subject.policy.environment.passes(name):
        return ProbeStep(attempt("environment", name), "variable.image", lacks=(value.encode(),))
    return step("variable.none", "environment", name)


def _arrival_control(subject: ProofSubject) -> tuple[ProbeStep, ...]:
    """The control: that variables are passed at all, if any should be."""
    environment = subject.policy.environment
    names = [*subject.canaries.passed, *environment.set]
    arriving = tuple(
        ProbeStep(attempt("environment", name), "works", private=bool(why_secret(name))) for name in names[:1]
    )
    return (*arriving, reads_plain(subject.fixture))


def _probe(name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...] = ()) -> Probe:
    return Probe(f"environment/{name}", Family.ENVIRONMENT, about, steps, controls)


def _inherited(secrets: tuple[bytes, ...], control: tuple[ProbeStep, ...]) -> Iterator[Probe]:
    yield _probe(
        "first-process",
        "the init process of the sandbox has no variables of the host either (containers/bubblewrap#725)",
        ProbeStep(attempt("read", "/proc/1/environ"), "process.environ", lacks=secrets, private=True),
        ProbeStep(attempt("read", "/proc/1/cmdline"), "works", lacks=secrets, private=True),
        controls=(*control, ProbeStep(attempt("read", "/proc/self/environ"), "works", private=True)),
    )
    yield _probe(
        "descriptors",
        "only standard input and output are open: no descriptor of the launcher is inherited",
        ProbeStep(attempt("descriptors"), "works", value=b"0\n1\n2\n"),
    )
    yield _probe(
        "open-directories",
        "no process, including init, has a directory open whose `..` leads out of the sandbox",
        ProbeStep(attempt("directories"), "works", value=b""),
    )
