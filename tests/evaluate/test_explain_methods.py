"""One question, every method: the answer comes from the rendered artifacts, and is compared with the policy.

Tests of builder/sandwright_kubernetes/explain.py: manifests, read back.
Tests of evaluate/explain/compare.py: policy and artifact, answer by answer.
Tests of evaluate/explain/isolation.py: an option that the reader does not know (refuse_unknown).
Tests of evaluate/explain/known.py: accepted gaps are no disagreement.
Tests of evaluate/explain/squid.py: the proxy's hosts, read back.
Tests of methods/<name>/explain.py.
Tests of methods/bwrap/explain.py: bubblewrap's options, read back.
Tests of methods/gvisor/explain.py.
Tests of methods/landlock/explain.py.
Tests of methods/seatbelt/explain.py.
Tests of methods/shared/engine/explain.py: options of Docker and Podman, read back.
Tests of methods/shared/runtime_spec/explain.py: config.json, read back.
Tests of methods/user/explain.py.
Tests of methods/vm/explain.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501, PLR0917

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import HostFacts, Policy, ResolvedPolicy
from sandwright.errors import DocumentError, UsageError
from sandwright.evaluate.explain.compare import Comparison, Row
from sandwright.evaluate.explain.squid import Squid
from sandwright.launcher.plan import LaunchPlan, plan_bytes
from sandwright.methods import METHODS
from sandwright.methods.bwrap.explain import read_bwrap
from sandwright.methods.compare import explain
from sandwright.methods.registry import artifacts
from sandwright.methods.shared import reasons
from sandwright.policy.facts import HostEntry
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered
from support.goldens import CASES, case_policy
from support.thorough import examples

DIRECTORY, FILE = HostEntry("directory"), HostEntry("file")
HOME, PROJECT = "/home/u", "/home/u/p"
FACTS = HostFacts(
    os="linux",
    home=HOME,
    project=PROJECT,
    entries={
        **dict.fromkeys(("/", "/home", HOME, PROJECT, f"{PROJECT}/.git", "/tmp", f"{HOME}/.ssh"), DIRECTORY),
        **dict.fromkeys((f"{PROJECT}/.git/hooks", "/run", "/etc", "/srv"), DIRECTORY),
        **dict.fromkeys((f"{PROJECT}/a", f"{PROJECT}/.git/config", f"{HOME}/.netrc", "/etc/hosts"), FILE),
        f"{PROJECT}/link": HostEntry("symlink", "../.ssh"),
        "/run/agent": HostEntry("socket"),
    },
    git_directories=(f"{PROJECT}/.git",),
)
POLICY = """\
method: bwrap
filesystem: {readonly: [$PROJECT/a]}
environment: {pass: [TERM, "LC_*"], set: {CI: "1"}}
"""


def _policy(text: str = POLICY, facts: HostFacts = FACTS) -> ResolvedPolicy:
    return Policy.from_text(text).resolve(facts)


def _row(question: str, subject: str, method: str, policy: ResolvedPolicy | None = None) -> Row:
    return explain(policy or _policy(), question, subject, methods=[method]).row(method)


@pytest.mark.parametrize(
    ("method", "question", "subject", "decision", "status", "place", "source"),
    [
        ("bwrap", "read", "~/.ssh/id_rsa", "deny", "agrees", "args: --tmpfs /home/u/.ssh", "preset default presets/default.yaml:17:7"),
        ("bwrap", "read", "$PROJECT/link/id_rsa", "deny", "agrees", "args: --tmpfs /home/u/.ssh", "preset default presets/default.yaml:17:7"),
        ("bwrap", "read", "~/.netrc", "deny", "agrees", "args: --ro-bind /dev/null /home/u/.netrc", "preset default presets/default.yaml:26:7"),
        ("bwrap", "read", "~/.azure/x", "deny", "agrees", "/home/u/.azure", "preset default presets/default.yaml:40:7"),
        ("bwrap", "read", "/etc/hosts", "allow", "agrees", "args: --ro-bind / /", "preset default presets/default.yaml:6:7"),
        ("bwrap", "exec", "/usr/bin/env", "allow", "agrees", "args: --ro-bind / /", "preset default presets/default.yaml:6:7"),
        ("bwrap", "write", "/etc/hosts", "deny", "agrees", "args: --ro-bind / /", "preset default presets/default.yaml:6:7"),
        ("bwrap", "write", "$PROJECT/new", "allow", "agrees", "args: --bind /home/u/p /home/u/p", "preset default presets/default.yaml:14:11"),
        ("bwrap", "write", "$PROJECT/a", "deny", "agrees", "args: --ro-bind /home/u/p/a /home/u/p/a", "project sandbox.yaml:2:25"),
        ("bwrap", "write", "$PROJECT/.git/hooks/x", "deny", "agrees", "args: --ro-bind /home/u/p/.git/hooks /home/u/p/.git/hooks", "preset default presets/default.yaml:215:7"),
        ("bwrap", "write", "/tmp/x", "allow", "agrees", "args: --tmpfs /tmp", "built-in presets/built-in.yaml:10:8"),
        ("bwrap", "env", "CI", "allow", "agrees", "args: --setenv CI 1", "project sandbox.yaml:3:47"),
        ("bwrap", "connect", "github.com:443", "deny", "agrees", "args: --unshare-net", "built-in presets/built-in.yaml:12:9"),
        ("bwrap", "connect", "/run/agent", "deny", "agrees", "launch.plan: sockets.supervised", "built-in presets/built-in.yaml:14:17"),
        ("bwrap", "syscall", "ptrace", "deny", "agrees", "seccomp.bpf: ptrace (101): SCMP_ACT_ERRNO 1 (EPERM)", "built-in presets/built-in.yaml:20:12"),
        ("bwrap", "syscall", "read", "allow", "agrees", "seccomp.bpf: read (0): SCMP_ACT_ALLOW", "built-in presets/built-in.yaml:20:12"),
        ("oci", "read", "/etc/hosts", "deny", "stricter", None, "preset default presets/default.yaml:6:7"),
        ("oci", "read", "~/.ssh/id_rsa", "deny", "agrees", None, "preset default presets/default.yaml:17:7"),
        ("docker", "read", "~/.ssh/id_rsa", "deny", "agrees", None, "preset default presets/default.yaml:17:7"),
        ("docker", "read", "/etc/hosts", "deny", "stricter", None, "preset default presets/default.yaml:6:7"),
        ("docker", "write", "$PROJECT/new", "allow", "agrees", "--mount=type=bind,src=/home/u/p,dst=/home/u/p,bind-propagation=rprivate", "preset default presets/default.yaml:14:11"),
        ("docker", "write", "$PROJECT/a", "deny", "agrees", "--mount=type=bind,src=/home/u/p/a,dst=/home/u/p/a,bind-propagation=rprivate,readonly", "project sandbox.yaml:2:25"),
        ("docker", "env", "CI", "allow", "agrees", "--env=CI=1", "project sandbox.yaml:3:47"),
        ("docker", "env", "LC_ALL", "allow", "agrees", None, "project sandbox.yaml:3:28"),
        ("docker", "connect", "github.com:443", "deny", "agrees", "--network=none", "built-in presets/built-in.yaml:12:9"),
        ("podman", "connect", "/run/agent", "deny", "agrees", None, "built-in presets/built-in.yaml:14:17"),
        ("podman", "write", "/tmp/x", "allow", "agrees", None, "built-in presets/built-in.yaml:10:8"),
        ("podman", "syscall", "ptrace", "deny", "agrees", None, "built-in presets/built-in.yaml:20:12"),
        ("seatbelt", "read", "~/.ssh/id_rsa", "deny", "agrees", '(deny file-read* … (subpath "/home/u/.ssh") …)', "preset default presets/default.yaml:17:7"),
        ("seatbelt", "write", "$PROJECT/new", "allow", "agrees", '(allow file-write* file-link (subpath "/home/u/p"))', "preset default presets/default.yaml:14:11"),
        ("gvisor", "syscall", "clone3", "deny", "agrees", None, "built-in presets/built-in.yaml:20:12"),
        ("gvisor", "syscall", "ptrace", "deny", "agrees", "linux.seccomp.syscalls[1]: SCMP_ACT_ERRNO 1 (EPERM)", "built-in presets/built-in.yaml:20:12"),
    ],
)  # fmt: skip
def test_answers_come_from_the_artifact(
    method: str, question: str, subject: str, decision: str, status: str, place: str | None, source: str
) -> None:
    row = _row(question, subject, method)
    assert (row.decision, row.status, str(row.source)) == (decision, status, source)
    if place is not None:
        assert row.position is not None
        assert place in (str(row.position), row.position.text)


@pytest.mark.parametrize("method", ["oci", "seatbelt"])
def test_rules_are_shown_with_their_line(method: str) -> None:
    policy = _policy()
    place = _row("write", "$PROJECT/new", method, policy).position
    assert place is not None
    content = next(each.content for each in artifacts(policy, method) if each.name == place.artifact)
    lines = content.decode().splitlines()[place.line - 1 :]
    assert lines[0][place.column - 1] in "({"
    assert any(f'"{PROJECT}"' in line for line in lines[:3])


@pytest.mark.parametrize(
    ("subject", "facts", "decision", "status"),
    [
        pytest.param("$PROJECT/.git", {}, "allow", "agrees", id="inside of one that is there"),
        pytest.param("$PROJECT/.config", {}, "deny", "stricter", id="mkdir on the way to a protected name"),
        pytest.param("$PROJECT/other", {}, "allow", "agrees", id="mkdir elsewhere"),
        pytest.param("$PROJECT/.git", {f"{PROJECT}/.git": None}, "deny", "stricter", id="git init"),
    ],
)
def test_seatbelt_tells_what_it_refuses_to_create(
    subject: str, facts: dict[str, HostEntry | None], decision: str, status: str
) -> None:
    entries = {path: entry for path, entry in FACTS.entries.items() if path not in facts}
    here = dataclasses.replace(FACTS, entries=entries, git_directories=())
    row = _row("write", subject, "seatbelt", _policy(facts=here))
    assert (row.decision, row.status) == (decision, status)
    assert ("can be neither made nor renamed" in row.reason) is (status == "stricter")


@pytest.mark.parametrize(
    ("method", "read", "subject", "decision", "status"),
    [
        pytest.param("bwrap", "[]", "~/link/a", "deny", "stricter", id="in an empty root"),
        pytest.param("bwrap", "[/]", "~/link/a", "allow", "agrees", id="on the host's"),
        pytest.param("bwrap", "[]", "$PROJECT/way/a", "allow", "agrees", id="in what is granted"),
        pytest.param(
            "bwrap", "[/]", "/tmp/link/a", "deny", "stricter", id="in the host's temporary directory"
        ),
        pytest.param("bwrap", "[~/link]", "~/link/a", "allow", "agrees", id="that the policy names"),
        pytest.param("seatbelt", "[]", "~/link/a", "deny", "stricter", id="on macOS"),
        pytest.param(
            "seatbelt", "[~/link]", "~/link/a", "allow", "agrees", id="that the policy names, on macOS"
        ),
        pytest.param("docker", "[]", "$PROJECT/.git/way/a", "allow", "agrees", id="in a container"),
        pytest.param("docker", "[]", "~/link/a", "deny", "stricter", id="where a container has only mounts"),
        pytest.param("docker", "[]", "/var/link/a", "allow", "agrees", id="where an image has its own"),
        pytest.param("docker", "[]", "/tmp/link/a", "deny", "stricter", id="in a container's own directory"),
    ],
)
def test_a_way_over_links_that_are_not_seen_leads_nowhere(
    method: str, read: str, subject: str, decision: str, status: str
) -> None:
    links = {
        f"{HOME}/link": HostEntry("symlink", PROJECT),
        "/tmp/link": HostEntry("symlink", PROJECT),
        "/var/link": HostEntry("symlink", PROJECT),
        f"{PROJECT}/way": HostEntry("symlink", "."),
        f"{PROJECT}/.git/way": HostEntry("symlink", ".."),
    }
    facts = dataclasses.replace(FACTS, entries={**FACTS.entries, **links})
    policy = _policy(f"filesystem: {{read: {read}, write: [$PROJECT]}}", facts)
    row = _row("read", subject, method, policy)
    assert (row.decision, row.status) == (decision, status)
    assert ("is not seen inside" in row.reason) is (status == "stricter")


@pytest.mark.parametrize(
    ("method", "question", "subject", "absent", "reason"),
    [
        ("kubernetes", "read", "/srv", "", "the project is the only part of the host, as a volume"),
        ("bwrap", "write", "/tmp/x", "/tmp", "/tmp does not exist, and a mount needs something to lie on"),
    ],
)
def test_where_a_method_has_no_place_for_what_is_granted(
    method: str, question: str, subject: str, absent: str, reason: str
) -> None:
    facts = dataclasses.replace(FACTS, entries={p: e for p, e in FACTS.entries.items() if p != absent})
    policy = _policy("filesystem: {read: [/], readonly: [/srv]}", facts)
    row = _row(question, subject, method, policy)
    assert (row.decision, row.status, row.reason) == ("deny", "stricter", reason)
    assert _row("read", "$PROJECT/a", method, policy).status == "agrees"


@pytest.mark.parametrize(
    ("network", "looser"),
    [
        ("mode: none", ["docker", "podman", "oci"]),
        ("mode: host", []),
        ("unix_sockets: [/run/agent]", ["docker", "podman", "gvisor", "oci"]),
    ],
)
def test_sockets_that_appear_later(network: str, looser: list[str]) -> None:
    """They are unknown when a sandbox is made: a method that hides sockets by mounts does not hide them."""
    text = f"method: bwrap\nextends: []\nfilesystem: {{write: [$PROJECT]}}\nnetwork: {{{network}}}\n"
    found = explain(_policy(text), "connect", "$PROJECT/later.sock", methods=RENDERED)
    assert [row.method for row in found.rows if row.status == "looser"] == looser
    assert {row.status for row in found.rows} <= {"agrees", "looser"}
    reasons = [row.reason for row in found.rows if row.status == "looser"]
    assert [each for each in reasons if not re.search("listens? at the start of a run", each)] == []


RENDERED = ["bwrap", "docker", "podman", "gvisor", "oci", "seatbelt", "kubernetes"]


@pytest.mark.parametrize(
    "name", [".envrc", ".vscode/tasks.json", ".mcp.json", "sandbox.yaml", ".git/commondir"]
)
def test_no_method_lets_a_protected_name_be_made(name: str) -> None:
    found = explain(_policy(), "write", f"$PROJECT/{name}", methods=RENDERED)
    assert [(row.method, row.decision, row.status) for row in found.rows] == [
        (method, "deny", "agrees") for method in RENDERED
    ]


@pytest.mark.parametrize("rule", ["deny", "readonly"])
def test_no_method_lets_a_restricted_path_of_the_project_be_made(rule: str) -> None:
    policy = _policy(f"method: bwrap\nfilesystem: {{{rule}: [$PROJECT/new/er]}}\n")
    found = explain(policy, "write", "$PROJECT/new/er/x", methods=RENDERED)
    assert [(row.method, row.decision, row.status) for row in found.rows] == [
        (method, "deny", "agrees") for method in RENDERED
    ]


@pytest.mark.parametrize("method", ["bwrap", "docker", "podman", "gvisor", "oci"])
def test_what_lies_on_the_way_to_a_protected_name_is_not_made(method: str) -> None:
    row = _row("write", "$PROJECT/.claude/notes", method)
    assert (row.decision, row.status) == ("deny", "stricter")
    assert row.reason.startswith(f"{PROJECT}/.claude does not exist, and is not made")


def test_names_that_nothing_protects_elsewhere_are_told() -> None:
    policy = _policy("method: bwrap\nfilesystem: {write: [$PROJECT, /srv]}\n")
    found = explain(policy, "write", "/srv/.envrc", methods=["bwrap", "oci", "seatbelt"])
    assert [(row.method, row.decision, row.status, row.level) for row in found.rows] == [
        ("bwrap", "allow", "looser", "partly"),
        ("oci", "allow", "looser", "partly"),
        ("seatbelt", "deny", "agrees", "exact"),
    ]
    assert "the next run does not start" in found.row("bwrap").reason
    assert found.agree


def _tampered(monkeypatch: pytest.MonkeyPatch, method: str, name: str, old: bytes, new: bytes) -> None:
    """Change an artifact that a method's renderer makes."""
    honest = METHODS[method].make_artifacts

    def tampered(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        made = honest(policy)
        content = next(each.content for each in made if each.name == name)
        assert content.count(old) >= 1
        return tuple(
            dataclasses.replace(each, content=content.replace(old, new)) if each.name == name else each
            for each in made
        )

    monkeypatch.setitem(METHODS[method].__dict__, "make_artifacts", tampered)


@pytest.mark.parametrize(
    ("method", "name", "old", "new", "question", "subject"),
    [
        ("bwrap", "args", b"--tmpfs\0/home/u/.ssh\0", b"--bind\0/home/u/.ssh\0/home/u/.ssh\0", "read", "~/.ssh/x"),
        ("bwrap", "args", b"--remount-ro\0/home/u/.ssh\0", b"", "write", "~/.ssh/x"),
        ("bwrap", "args", b"--ro-bind\0/home/u/p/a\0", b"--bind\0/home/u/p/a\0", "write", "$PROJECT/a"),
        ("bwrap", "args", b"--unshare-net\0", b"", "connect", "github.com:443"),
        ("bwrap", "launch.plan", b"LC_*\0", b"SECRET\0", "env", "SECRET"),
        ("docker", "launch.plan", b"--network=none", b"--network=host", "connect", "github.com:443"),
        ("docker", "launch.plan", b"bind-propagation=rprivate,readonly", b"bind-propagation=rprivate", "write", "$PROJECT/a"),
        ("podman", "launch.plan", b"\0LC_*\0", b"\0SECR*\0", "env", "SECRET"),
        ("oci", "config.json", b'"type": "network"', b'"type": "time"', "connect", "github.com:443"),
        ("seatbelt", "profile.sb", b'(subpath "/home/u/.ssh")', b'(subpath "/home/u/.shh")', "read", "~/.ssh/x"),
    ],
)  # fmt: skip
def test_an_artifact_that_lets_more_through_disagrees(
    method: str,
    name: str,
    old: bytes,
    new: bytes,
    question: str,
    subject: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = explain(_policy(), question, subject, methods=[method])
    assert (before.rows[0].decision, before.rows[0].status) == ("deny", "agrees")
    _tampered(monkeypatch, method, name, old, new)
    after = explain(_policy(), question, subject, methods=[method])
    assert (after.rows[0].decision, after.rows[0].status) == ("allow", "disagrees")
    assert not after.agree


def test_a_filter_that_lets_more_through_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads(artifacts(_policy(), "oci")[0].content)
    config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}
    plan = Artifact("launch.plan", plan_bytes(LaunchPlan(method="runtime")), "")
    made = (Artifact("config.json", json.dumps(config).encode(), ""), plan)
    monkeypatch.setitem(METHODS["oci"].__dict__, "make_artifacts", lambda _: made)
    row = _row("syscall", "ptrace", "oci")
    assert (row.decision, row.status, row.position and row.position.text) == (
        "allow",
        "disagrees",
        "defaultAction: SCMP_ACT_ALLOW",
    )


PROXIED = """\
method: bwrap
network:
  mode: proxy
  allow: [github.com, "*.example.org:8443", "192.0.2.1:80"]
"""


@pytest.mark.parametrize(
    ("target", "decision", "text"),
    [
        ("github.com:443", "allow", "sw_host_1 dstdomain github.com"),
        ("github.com:22", "deny", "http_access deny !sw_listed sw_is_host"),
        ("a.github.com:443", "deny", "http_access deny !sw_listed sw_is_host"),
        ("a.b.example.org:8443", "allow", r"sw_below_2 dstdom_regex ^.+\.example\.org$"),
        ("example.org:8443", "deny", "http_access deny !sw_listed sw_is_host"),
        ("192.0.2.1:80", "allow", "sw_address_3 dst 192.0.2.1"),
        ("169.254.169.254:80", "deny", "http_access deny !sw_listed sw_is_host"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["bwrap", "docker", "podman", "gvisor", "seatbelt", "kubernetes"])
def test_hosts_are_asked_of_the_proxys_configuration(
    method: str, target: str, decision: str, text: str
) -> None:
    row = _row("connect", target, method, _policy(PROXIED))
    assert (row.decision, row.status, row.position and row.position.text) == (decision, "agrees", text)
    assert row.position is not None
    assert row.position.artifact.rpartition("/")[2] == "squid.conf"


@pytest.mark.parametrize(
    ("method", "name", "text", "decision", "status"),
    [
        ("bwrap", "HTTPS_PROXY", PROXIED, "allow", "agrees"),
        ("seatbelt", "https_proxy", PROXIED, "allow", "agrees"),
        ("seatbelt", "TMPDIR", POLICY, "allow", "agrees"),
        ("bwrap", "HTTPS_PROXY", POLICY, "deny", "agrees"),
        ("seatbelt", "HTTPS_PROXY", POLICY, "deny", "agrees"),
    ],
)
def test_what_the_sandbox_sets_itself_is_its_own(
    method: str, name: str, text: str, decision: str, status: str
) -> None:
    row = _row("env", name, method, _policy(text))
    assert (row.decision, row.status) == (decision, status)


def test_a_proxy_variable_that_the_host_gives_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    _tampered(monkeypatch, "bwrap", "launch.plan", b"LC_*\0", b"HTTPS_PROXY\0")
    assert _row("env", "HTTPS_PROXY", "bwrap").status == "disagrees"


def test_a_container_on_the_engines_own_network_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    _tampered(monkeypatch, "docker", "launch.plan", b"\0proxy\x000\0", b"\0")
    row = _row("connect", "example.org:443", "docker", _policy(PROXIED))
    assert (row.decision, row.status) == ("allow", "disagrees")


def test_without_a_way_to_the_proxy_nothing_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    port = b'(string-append "localhost:" (param "PROXY_PORT"))'
    _tampered(monkeypatch, "seatbelt", "profile.sb", port, b'"localhost:1"')
    row = _row("connect", "github.com:443", "seatbelt", _policy(PROXIED))
    assert (row.decision, row.status) == ("deny", "disagrees")


def test_a_proxy_refuses_where_an_address_leads_inside() -> None:
    text = "acl sw_inside dst 10.0.0.0/8\nacl sw_all dst all\nhttp_access deny sw_inside\nhttp_access allow sw_all\n"
    squid = Squid(text)
    assert [squid.verdict(host, 80).allowed for host in ("10.1.2.3", "11.1.2.3", "host.example")] == [
        False,
        True,
        True,
    ]
    with pytest.raises(DocumentError, match=r"squid\.conf:1:1: lists of kind time are not known"):
        Squid("acl night time 00:00-06:00\n")


CLUSTER = "method: kubernetes\nfilesystem: {readonly: [$PROJECT/a]}\nenvironment: {set: {CI: '1'}}\n"


@pytest.mark.parametrize(
    ("question", "subject", "decision", "status"),
    [
        ("write", "$PROJECT/new", "allow", "agrees"),
        ("write", "$PROJECT/a", "deny", "agrees"),
        ("read", "~/.ssh/x", "deny", "agrees"),
        ("read", "/etc/hosts", "deny", "stricter"),
        ("env", "CI", "allow", "agrees"),
        ("env", "TERM", "deny", "stricter"),
        ("connect", "github.com:443", "deny", "agrees"),
        ("syscall", "ptrace", "deny", "agrees"),
        ("syscall", "read", "allow", "agrees"),
    ],
)
def test_a_cluster_is_asked_through_its_manifests(
    question: str, subject: str, decision: str, status: str
) -> None:
    row = _row(question, subject, "kubernetes", _policy(CLUSTER))
    assert (row.decision, row.status) == (decision, status)


def test_an_open_network_policy_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    _tampered(monkeypatch, "kubernetes", "networkpolicy.yaml", b"egress: []", b"egress:\n  - {}")
    row = _row("connect", "github.com:443", "kubernetes", _policy(CLUSTER))
    assert (row.decision, row.status) == ("allow", "disagrees")


def test_what_a_method_cannot_do_is_refused_in_the_row() -> None:
    policy = _policy("method: landlock\n")
    row = _row("read", "/etc/hosts", "landlock", policy)
    assert (row.decision, row.status) == ("allow", "refused")
    assert row.reason.startswith("landlock cannot enforce filesystem.attributes (filesystem.read, preset")


def test_what_cannot_be_rendered_has_no_other_reason() -> None:
    """The declaration is about gVisor on the host. Its sessions start another proxy."""
    text = "method: gvisor\ngvisor: {engine: docker}\nnetwork: {mode: proxy, http: [{host: api.example}]}\n"
    row = _row("request", "GET https://api.example/x", "gvisor", _policy(text))
    assert row.because.endswith(f"network.http: {reasons.NO_INSPECTION}")
    assert (row.status, row.reason) == ("refused", "")


def test_what_an_account_may_do_outside_the_project_is_not_asked() -> None:
    row = _row("read", "/etc/hosts", "alcless")
    assert (row.decision, row.status) == (None, "not asked")
    assert row.because == "outside the project, the account has the rights that this machine gives it"
    assert row.level == "stricter"


def test_what_a_policy_accepts_is_looser_and_no_disagreement() -> None:
    text = (
        "method: noop\nreason: a test\nfilesystem: {deny: [/srv]}\n"
    )  # fmt: skip
    row = _row("read", "/srv/x", "noop", _policy(text))
    assert (row.decision, row.status) == ("allow", "looser")
    assert row.reason == "noop enforces nothing; accepted: a test"


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_calls_are_asked_of_each_architecture(arch: str) -> None:
    found = explain(_policy(), "syscall", "clone", arguments=[0x10000000], architectures=[arch])
    assert {(row.method, row.arch, row.decision) for row in found.rows if row.decision == "deny"} >= {
        ("bwrap", arch, "deny"),
        ("oci", arch, "deny"),
        ("gvisor", arch, "deny"),
    }
    allowed = explain(_policy(), "syscall", "clone", arguments=[17], architectures=[arch], methods=["bwrap"])
    assert allowed.rows[0].decision == "allow"


def test_a_call_of_one_architecture_only() -> None:
    found = explain(_policy(), "syscall", "arch_prctl", architectures=["arm64"], methods=["bwrap"])
    assert (found.rows[0].decision, found.rows[0].because) == (None, "arm64 has no system call arch_prctl")


@pytest.mark.parametrize(
    ("question", "subject", "message"),
    [
        ("writ", "/x", "'writ' is no question; did you mean 'write'?"),
        ("syscall", "ptrac", "ptrac is not a system call; did you mean ptrace?"),
        ("read", "a\0b", "'a\\x00b': is no path"),
        ("env", "1A", "'1A' cannot be the name of a variable"),
    ],
)
def test_questions_without_sense_are_refused(question: str, subject: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain(_policy(), question, subject)
    assert message in str(caught.value)


def test_unknown_methods_and_architectures_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no method 'bwarp'"):
        explain(_policy(), "read", "/x", methods=["bwarp"])
    with pytest.raises(UsageError, match="no table of system calls for mips"):
        explain(_policy(), "syscall", "read", architectures=["mips"])


def test_json_is_stable() -> None:
    data = json.loads(json.dumps(explain(_policy(), "write", "$PROJECT/a", methods=["bwrap"]).as_data()))
    assert data == {
        "schema": 1,
        "question": "write",
        "subject": f"{PROJECT}/a",
        "decision": "deny",
        "rule": data["rule"],
        "others": data["others"],
        "agree": True,
        "methods": [
            {
                "method": "bwrap",
                "arch": None,
                "decision": "deny",
                "status": "agrees",
                "because": f"the host's {PROJECT}/a is bound there, read-only",
                "level": "exact",
                "reason": None,
                "artifact": {
                    "file": "args",
                    "line": None,
                    "column": None,
                    "text": f"--ro-bind {PROJECT}/a {PROJECT}/a",
                },
                "policy": {
                    "layer": "project",
                    "file": "sandbox.yaml",
                    "line": 2,
                    "column": 25,
                    "field": "filesystem.readonly[0]",
                },
            }
        ],
    }
    assert data["rule"]["text"] == f"readonly $PROJECT/a [{PROJECT}/a]"


def test_bubblewrap_options_that_nobody_knows_are_refused() -> None:
    launch, bpf = Artifact("launch", b"", ""), Artifact("seccomp.bpf", b"", "")
    made = Rendered("bwrap", (Artifact("args", b"--unshare-net\0--nonsense\0", ""), launch, bpf), ())
    with pytest.raises(DocumentError, match="args: '--nonsense' is unknown"):
        read_bwrap(made, _policy())


SUBJECTS = st.lists(
    st.sampled_from(
        ["home", "ada", "project", "src", ".git", "hooks", "x", "..", ".ssh", "etc", "tmp", "secrets"]
    ),
    max_size=6,
).map(lambda parts: "/" + "/".join(parts))


TESTED = [name for name, each in METHODS.items() if each.parts.read_back and name != "noop"]


@pytest.mark.parametrize("case", CASES)
@settings(deadline=None, max_examples=examples(25))
@given(question=st.sampled_from(["read", "write", "exec"]), subject=SUBJECTS)
def test_no_path_is_open_that_the_policy_closes(case: str, question: str, subject: str) -> None:
    """For every question: against the policy, only missing names are open, and only under mounts."""
    policy = case_policy(case)
    found: Comparison = explain(policy, question, subject, methods=TESTED)
    for row in found.rows:
        if row.status != "disagrees":
            continue
        rules = policy.filesystem.tree.deciding(found.subject)
        assert row.decision == "allow", (row, subject)
        assert row.method != "seatbelt", (row, subject)
        assert rules[0].origin in ("protected", "policy"), (row, subject)
        assert policy.facts.kind(rules[0].path) is None, (row, subject)


@pytest.mark.parametrize(
    ("method", "subject", "listen", "connect"),
    [
        ("bwrap", 3000, ("allow", "agrees"), ("deny", "agrees")),
        ("oci", 3000, ("allow", "agrees"), ("deny", "agrees")),
        ("gvisor", 3000, ("allow", "agrees"), ("deny", "agrees")),
        ("docker", 3000, ("allow", "agrees"), ("deny", "agrees")),
        ("seatbelt", 3000, ("allow", "agrees"), ("deny", "agrees")),
        ("kubernetes", 3000, ("deny", "refused"), ("deny", "refused")),
        ("bwrap", 5432, ("deny", "agrees"), ("allow", "agrees")),
        ("oci", 5432, ("deny", "agrees"), ("allow", "agrees")),
        ("user", 5432, ("deny", "agrees"), ("allow", "agrees")),
        ("docker", 5432, ("deny", "agrees"), ("deny", "stricter")),
        ("seatbelt", 5432, ("deny", "agrees"), ("allow", "agrees")),
    ],
)
def test_ports_between_the_two_loopbacks(
    method: str, subject: int, listen: tuple[str, str], connect: tuple[str, str]
) -> None:
    policy = _policy("network: {localhost: [5432], expose: [3000]}")
    for question, text, expected in (
        ("listen", str(subject), listen),
        ("connect", f"localhost:{subject}", connect),
    ):
        row = _row(question, text, method, policy)
        assert (row.decision, row.status) == expected, row
