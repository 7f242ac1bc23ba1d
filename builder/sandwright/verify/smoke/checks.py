"""Judges the observations of a start by the expected values. Pure.

Each denial has its control in the same start, and only the specific error counts; a denial for another reason
decides nothing. The image is trusted to answer correctly: a hostile one can print anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.verify.smoke.attempts import STATUS
from sandwright.verify.smoke.evidence import Evidence
from sandwright.verify.smoke.expected import GuestExpectation, ImageProgram
from sandwright.verify.verdict import ProbeFinding, Verdict

Judgement = tuple[Verdict, str]

FEW_AUTHORITIES = 100
"""Mozilla's list, which Debian's ca-certificates brings, holds about 140."""

_OVERFLOW = 65534
"""The id that the kernel shows for one that a user namespace doesn't map (/proc/sys/kernel/overflowgid)."""

_FALLBACK_DEVICES = frozenset(
    "tunl0 gre0 gretap0 erspan0 sit0 ip_vti0 ip6_vti0 ip6tnl0 ip6gre0".split()  # noqa: SIM905
)
"""Tunnels that the kernel puts, down, into every new network namespace when their modules are loaded
(Documentation/admin-guide/sysctl/net.rst, fb_tunnels_only_for_init_net)."""

_MACHINES: Mapping[str, tuple[str, int]] = {"linux/amd64": ("x86_64", 62), "linux/arm64": ("aarch64", 183)}
"""Platform → machine of uname, and e_machine of its ELF files."""

_NO_ROUTE = frozenset({"ENETUNREACH", "EHOSTUNREACH"})
"""The errors of a kernel without a route: Linux gives the first, gVisor the second (seen in 20221219)."""
_UNKNOWN_AUTHORITY = "refused 20"
"""X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY of OpenSSL's x509_vfy.h."""
_WRONG_NAME = "refused 62"
"""X509_V_ERR_HOSTNAME_MISMATCH."""


@dataclass(frozen=True)
class GuestCheck:
    """A question about every image. `judge` answers it from the outcome of `attempt`.

    `of_image`: the answer depends only on the image, and not on the runtime.
    """

    name: str
    question: str
    attempt: str
    judge: Callable[[Mapping[str, Any], Evidence, GuestExpectation], Judgement]
    of_image: bool = False


def evaluate(
    evidence: Evidence, expected: GuestExpectation, *, canary_reached: bool = False, whole: bool = True
) -> list[ProbeFinding]:
    """One finding for each built-in check and for each program of the image, in order.

    `canary_reached`: the sandbox reached a listener on the host, which it must not. Without `whole`, checks
    that depend only on the image were not made.
    """
    checks = [check for check in CHECKS if whole or not check.of_image]
    programs = expected.programs if whole else ()
    started = ProbeFinding("starts", *_starts(evidence))
    if started.verdict is not Verdict.PASS:
        names = [*(check.name for check in checks), *(_program_name(p) for p in programs)]
        skipped = [ProbeFinding(name, Verdict.SKIPPED, "it did not start") for name in names]
        return [started, *skipped]
    findings = [started]
    for check in checks:
        if check.name == "no network" and canary_reached:
            findings.append(ProbeFinding(check.name, Verdict.FAIL, "a listener on the host was reached"))
        else:
            findings.append(_judge_check(check, evidence, expected))
    return [*findings, *_judge_programs(evidence, programs)]


def _judge_check(check: GuestCheck, evidence: Evidence, expected: GuestExpectation) -> ProbeFinding:
    seen = evidence.attempt(check.attempt)
    if check.attempt and "broken" in seen:
        verdict = Verdict.FAIL if check.attempt == "tls" else Verdict.INCONCLUSIVE
        return ProbeFinding(check.name, verdict, f"the attempt {seen['broken']}")
    try:
        return ProbeFinding(check.name, *check.judge(seen, evidence, expected))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        return ProbeFinding(
            check.name, Verdict.FAIL, f"cannot read the output of the image ({what}): {str(seen)[:300]}"
        )


def _starts(evidence: Evidence) -> Judgement:
    if "begin" in evidence.attempts:
        return (
            Verdict.PASS,
            f"in {evidence.ended.seconds:.1f} s, Python {str(evidence.attempts['begin']).split(' ')[0]}",
        )
    return Verdict.FAIL, evidence.ended.describe()


def _judge_exit(_seen: Mapping[str, Any], evidence: Evidence, _expected: GuestExpectation) -> Judgement:
    ended = evidence.ended
    if ended.how != "exited":
        last = list(evidence.attempts)[-1]
        return Verdict.FAIL, f"{ended.describe()}; its last output is {last!r}"
    if "end" not in evidence.attempts:
        return Verdict.FAIL, f"it ended too early: {ended.describe()}"
    if ended.status != STATUS:
        return Verdict.FAIL, f"it ended with {STATUS}, and the runtime gave {ended.status}"
    return Verdict.PASS, f"{STATUS} came through"


def _judge_isolation(seen: Mapping[str, Any], _evidence: Evidence, expected: GuestExpectation) -> Judgement:
    namespace = str(seen["namespaces"]["mnt"])
    if seen["kernel"] != expected.outside.kernel:
        return Verdict.PASS, f"another kernel: {seen['kernel']}"
    if not namespace.startswith("mnt:["):
        return (
            Verdict.INCONCLUSIVE,
            f"the same kernel as the host's, and no namespace to be seen ({namespace})",
        )
    if namespace == expected.outside.mount_namespace:
        return Verdict.FAIL, f"it is in the host's mount namespace, {namespace}"
    return Verdict.PASS, f"mount namespace {namespace}"


def _judge_architecture(
    seen: Mapping[str, Any], _evidence: Evidence, expected: GuestExpectation
) -> Judgement:
    if expected.platform not in _MACHINES:
        return Verdict.INCONCLUSIVE, f"the machine of {expected.platform} is not known here"
    machine = _MACHINES[expected.platform]
    found = (seen["machine"], seen["elf"])
    if found != machine:
        return (
            Verdict.FAIL,
            f"machine {found[0]}, ELF machine {found[1]}; {expected.platform} is {machine[0]}, {machine[1]}",
        )
    return Verdict.PASS, f"{found[0]}"


def _judge_identity(seen: Mapping[str, Any], _evidence: Evidence, expected: GuestExpectation) -> Judgement:
    ids = (seen["uid"], seen["gid"])
    expected_ids = ([expected.uid] * 2, [expected.gid] * 2)
    if ids != expected_ids:
        return Verdict.FAIL, f"runs as {ids[0][0]}:{ids[1][0]}, not {expected.uid}:{expected.gid}"
    groups = frozenset(seen["groups"]) - {expected.gid, _OVERFLOW}
    wanted_groups = expected.groups - {expected.gid, _OVERFLOW}
    if groups != wanted_groups and not (expected.groups_may_lack and groups < wanted_groups):
        return Verdict.FAIL, f"supplementary groups {sorted(groups)}, not {sorted(expected.groups)}"
    if expected.user is not None and seen["name"] != expected.user:
        return Verdict.FAIL, f"user {expected.uid} is called {seen['name']!r}, not {expected.user!r}"
    return Verdict.PASS, f"{expected.uid}:{expected.gid} {seen['name']}".strip()


def _privileges(seen: Mapping[str, Any], _evidence: Evidence, _expected: GuestExpectation) -> Judgement:
    held = int(seen["CapEff"], 16) | int(seen["CapPrm"], 16)
    if held:
        return Verdict.FAIL, f"it holds capabilities: {held:#x}"
    if seen.get("NoNewPrivs", "1") != "1":
        return Verdict.FAIL, "it could gain privileges: no_new_privs is not set"
    confirmed = "no_new_privs" if "NoNewPrivs" in seen else "this kernel doesn't show no_new_privs"
    return Verdict.PASS, f"no capabilities; {confirmed}"


def _judge_read_only(seen: Mapping[str, Any], evidence: Evidence, expected: GuestExpectation) -> Judgement:
    if not expected.read_only:
        return Verdict.SKIPPED, "the bundle asks for a writable root"
    if written := [directory for directory, result in seen.items() if result == "done"]:
        return Verdict.FAIL, f"a file could be made in {', '.join(written)}"
    if "EROFS" not in seen.values():
        return Verdict.INCONCLUSIVE, f"denied, but not for being read-only: {_format_pairs(seen)}"
    if evidence.attempt("temporary").get("write") != "done":
        return (
            Verdict.INCONCLUSIVE,
            "nothing can be written to /tmp either, so the denial may be of another kind",
        )
    return (
        Verdict.PASS,
        f"EROFS in {', '.join(directory for directory, result in seen.items() if result == 'EROFS')}",
    )


def _judge_temporary(seen: Mapping[str, Any], _evidence: Evidence, _expected: GuestExpectation) -> Judgement:
    if seen["write"] != "done":
        return Verdict.FAIL, f"writing a file in /tmp gave {seen['write']}"
    if seen["mode"] != "0o1777":
        return Verdict.FAIL, f"the mode of /tmp is {seen['mode']}, not 0o1777"
    return Verdict.PASS, "writable, mode 1777"


def _judge_network(seen: Mapping[str, Any], _evidence: Evidence, _expected: GuestExpectation) -> Judgement:
    others = set(seen["interfaces"]) - {"lo"} - _FALLBACK_DEVICES
    if others:
        return Verdict.FAIL, f"it has network interfaces: {', '.join(sorted(others))}"
    if "done" in (seen["listener"], seen["route"]):
        way = "the host's loopback" if seen["listener"] == "done" else "the world"
        return Verdict.FAIL, f"it has a way to {way}"
    if seen["loopback"] != "done":
        return Verdict.INCONCLUSIVE, f"its own loopback doesn't work either: {seen['loopback']}"
    if seen["listener"] != "ECONNREFUSED" or seen["route"] not in _NO_ROUTE:
        return Verdict.INCONCLUSIVE, f"denied in an unexpected way: {_format_pairs(seen)}"
    return Verdict.PASS, "only its own loopback"


def _judge_environment(seen: Mapping[str, Any], _evidence: Evidence, expected: GuestExpectation) -> Judgement:
    if seen["leaks"]:
        return Verdict.FAIL, f"the runtime's own environment can be read in {', '.join(seen['leaks'])}"
    variables = seen["variables"]
    wrong = sorted(name for name, value in expected.environment.items() if variables.get(name) != value)
    if wrong:
        return Verdict.FAIL, "; ".join(f"{name} is {variables.get(name)!r}" for name in wrong)
    return Verdict.PASS, f"{len(expected.environment)} variables as configured, none of the host's"


def _judge_certificates(
    seen: Mapping[str, Any], _evidence: Evidence, expected: GuestExpectation
) -> Judgement:
    if seen["trusted"] != "done":
        return Verdict.FAIL, f"a good certificate was not accepted: {seen['trusted']}"
    for attempt, reason in (("untrusted", _UNKNOWN_AUTHORITY), ("misnamed", _WRONG_NAME)):
        if seen[attempt] == "done":
            return Verdict.FAIL, f"a certificate was accepted that is {attempt}"
        if seen[attempt] != reason:
            return (
                Verdict.INCONCLUSIVE,
                f"an {attempt} certificate was not accepted, but for {seen[attempt]!r}",
            )
    count = max(seen["authorities"].values())
    if expected.authorities and count <= FEW_AUTHORITIES:
        return Verdict.FAIL, f"only {count} authorities are trusted by default"
    return Verdict.PASS, f"{seen['library']}, {count} authorities"


CHECKS = (
    GuestCheck("exit status", "Does the runtime pass the exit status on?", "", _judge_exit),
    GuestCheck("inside", "Is it in a sandbox at all?", "surroundings", _judge_isolation),
    GuestCheck("architecture", "Does it run programs of its platform?", "surroundings", _judge_architecture),
    GuestCheck("identity", "Does it run as the user of its configuration?", "identity", _judge_identity),
    GuestCheck("privileges", "Does it run without privileges?", "privileges", _privileges),
    GuestCheck(
        "read-only root", "Is its root denied to writers, for being read-only?", "root", _judge_read_only
    ),
    GuestCheck("tmp", "Can /tmp be used by anybody?", "temporary", _judge_temporary),
    GuestCheck("no network", "Is it cut off from all networks?", "network", _judge_network),
    GuestCheck(
        "environment",
        "Is its environment the image's, and nothing of the host's?",
        "environment",
        _judge_environment,
    ),
    GuestCheck(
        "certificates",
        "Does Python verify certificates, and refuse bad ones?",
        "tls",
        _judge_certificates,
        of_image=True,
    ),
)
"""The built-in checks, in the order of reports. `starts` comes before them."""


def _judge_programs(evidence: Evidence, programs: Sequence[ImageProgram]) -> Iterator[ProbeFinding]:
    results = evidence.attempts.get("programs")
    if not isinstance(results, list) or len(results) != len(programs):
        results = [{"error": f"was not run ({evidence.ended.describe()})"}] * len(programs)
    for program, result in zip(programs, results, strict=True):
        yield judge_program(program, result)


def judge_program(program: ImageProgram, result: object) -> ProbeFinding:
    """The finding on one program; `result` holds `error`, or `status`, `stdout` and `stderr`."""
    name = _program_name(program)
    if not isinstance(result, dict) or not {"error", "status"} & result.keys():
        return ProbeFinding(name, Verdict.FAIL, f"cannot read the output of the image: {str(result)[:300]}")
    if "error" in result:
        what = "is not there" if result["error"] == "ENOENT" else result["error"]
        return ProbeFinding(name, Verdict.FAIL, f"{program.argv[0]} {what}")
    if result["status"] != program.status:
        message = str(result.get("stderr", "")).strip()[-300:]
        detail = f"exit status {result['status']}, not {program.status}"
        return ProbeFinding(name, Verdict.FAIL, f"{detail}: {message}" if message else detail)
    output = str(result.get("stdout", ""))
    if program.prints is not None and program.prints not in output:
        return ProbeFinding(
            name, Verdict.FAIL, f"its output does not hold {program.prints!r}: {output.strip()[-300:]!r}"
        )
    return ProbeFinding(name, Verdict.PASS, output.strip().split("\n")[0][:200])


def _program_name(program: ImageProgram) -> str:
    return f"program: {program.name}"


def _format_pairs(seen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in seen.items())
