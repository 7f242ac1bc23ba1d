"""Seatbelt profiles, asked through the evaluator: they agree with the policies. Simulated, without a Mac.

Tests of methods/seatbelt/path_rules.py.
Tests of methods/seatbelt/profile.py.
Tests of methods/seatbelt/quoting.py: no value of a policy becomes SBPL.
Tests of methods/seatbelt/spellings.py: names in another case.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError, RenderError
from sandwright.evaluate.sbpl import Evaluator, compile_profile, lint
from sandwright.methods.seatbelt.quoting import quote_comment, quote_sbpl
from sandwright.methods.seatbelt.render import render_seatbelt
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.loosening import loosenings
from sandwright.policy.names import FRAGMENTS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from support.thorough import examples

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = ("python-project", "strict", "ci", "hostile-names")
PROXY = {"PROXY_PORT": "3128"}
DIRECTORY = HostEntry("directory")
FACTS = HostFacts(
    os="darwin",
    home="/Users/u",
    project="/Users/u/p",
    tmp="/private/var/folders/x/T/sw",
    platform="darwin/arm64",
    entries=dict.fromkeys(("/", "/Users", "/Users/u", "/Users/u/p", "/Users/u/p/.git"), DIRECTORY),
)


def golden(case: str) -> ResolvedPolicy:
    folder = GOLDEN / case
    facts = HostFacts.from_json((folder / "facts-darwin.json").read_text(encoding="utf-8"))
    return Policy.from_text((folder / "sandbox.yaml").read_text(encoding="utf-8")).resolve(facts)


def resolved(facts: HostFacts = FACTS, **sections: Any) -> ResolvedPolicy:
    data = {"schema": 1, "method": "seatbelt", **sections}
    return Policy.from_text(json.dumps(data)).resolve(facts)


def profile_text(policy: ResolvedPolicy) -> str:
    return render_seatbelt(policy)[0].content.decode()


def evaluator(policy: ResolvedPolicy, **params: str) -> Evaluator:
    links = {path: entry.target for path, entry in policy.facts.entries.items() if entry.kind == "symlink"}
    profile = compile_profile(profile_text(policy), params=params)
    return Evaluator(profile, symlinks={path: to for path, to in links.items() if path.count("/") > 1})


def allows(asked: Evaluator, operation: str, path: str) -> bool:
    return asked.decide(operation, {"path": path}).allowed


@pytest.mark.parametrize("case", CASES)
def test_the_linter_finds_no_error(case: str) -> None:
    found = lint(profile_text(golden(case)), params=PROXY)
    errors = [each for each in found if each.severity == "error"]
    if case == "hostile-names":  # to it, a name with a backslash looks like a mistake
        assert {each.code for each in errors} <= {"L06"}
    else:
        assert errors == []


def probes(policy: ResolvedPolicy) -> list[str]:
    """Each path of the policy, with the paths above, beside and below it."""
    files = policy.filesystem
    known = {rule.path for rule in (*files.rules, *files.startup, *files.protected)}
    known |= {
        f"{root}/{name.value}" for each in files.protections for root in each.roots for name in each.names
    }
    found = {path: None for each in known for path in (each, each.rpartition("/")[0] or "/")}
    for path in sorted(known - {"/"}):
        found.update(dict.fromkeys((f"{path}/below", f"{path}/a/b", f"{path}x", path[:-1])))
    return [path for path in found if path == "/" or not path.endswith("/")]


def assert_same(policy: ResolvedPolicy, asked: Evaluator, paths: list[str]) -> None:
    for path in paths:
        readable = policy.is_path_readable(path)
        for operation in ("file-read-data", "process-exec*", "file-map-executable", "file-read-xattr"):
            expected = readable or (path == "/" and operation == "file-read-data")
            assert allows(asked, operation, path) == expected, (operation, path)
        for operation in ("file-write-data", "file-write-mode", "file-link"):
            assert allows(asked, operation, path) == policy.is_path_writable(path), (operation, path)
        if not policy.is_path_writable(path):
            assert not allows(asked, "file-write-create", path), path
            assert not allows(asked, "file-write-unlink", path), path


@pytest.mark.parametrize("case", CASES)
def test_the_profile_says_what_the_policy_says(case: str) -> None:
    policy = golden(case)
    paths = probes(policy)
    assert len(paths) > 100
    assert_same(policy, evaluator(policy), paths)


@pytest.mark.parametrize("case", ["python-project", "hostile-names"])
def test_no_set_id_file_is_made_where_files_may_be(case: str) -> None:
    policy = golden(case)
    made = f"{policy.facts.project}/x"
    asked = evaluator(policy, **PROXY)
    assert allows(asked, "file-write-mode", made)
    assert not allows(asked, "file-write-setugid", made)


@pytest.mark.parametrize(
    "name", [".GIT/hooks/x", ".git/HooKs/x", ".git/HOO\u212as/x", ".\u017fan\u0064box/x", ".VSCODE"]
)
def test_no_other_spelling_walks_around_a_protected_name(name: str) -> None:
    policy = golden("python-project")
    asked = evaluator(policy)
    assert not policy.is_path_writable(f"/Users/ada/project/{name}")
    assert not allows(asked, "file-write-create", f"/Users/ada/project/{name}")
    assert not allows(asked, "file-read-data", "/users/ADA/.SSH/id_rsa")
    assert allows(asked, "file-write-create", "/Users/ada/project/.github/x")


NAMES = st.sampled_from(
    ["a", "b", "c", ".git", "hooks", ".vscode", 'q"', "back\\", "e\u0301", "\u00e9", "(x)", "k.s"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
BASES = st.sampled_from(["/Users/u/p", "/Users/u", "/opt", "/private/tmp"])
SPELLED = st.tuples(BASES, PATHS).map("/".join)
POLICIES = st.fixed_dictionaries(
    {
        "read": st.lists(SPELLED | st.just("/"), max_size=4),
        "write": st.lists(SPELLED, max_size=4),
        "readonly": st.lists(SPELLED, max_size=3),
        "deny": st.lists(SPELLED, max_size=3),
        "protect": st.lists(PATHS, max_size=4),
    }
)
QUICK = settings(max_examples=examples(40), deadline=None)


@pytest.mark.parametrize(
    "name",
    [
        ".cla\u200cude/settings.json",
        ".cla\u200cude",
        ".vs\ufeffcode/x",
        ".git/config.work\u206ftree",
        "\u200e.idea",
    ],
)
def test_no_character_that_hfs_ignores_walks_around_a_protected_name(name: str) -> None:
    asked, project = evaluator(golden("python-project"), **PROXY), "/Users/ada/project"
    assert not allows(asked, "file-write-create", f"{project}/{name}")
    assert allows(asked, "file-write-create", f"{project}/\U0001f468\u200d\U0001f4bb notes")
    assert allows(asked, "file-write-create", f"{project}/plain")
    assert allows(asked, "file-write-data", f"{project}/re\u200csume"), "an existing file has the name it has"


def distinct(files: dict[str, list[str]]) -> dict[str, list[str]]:
    return {key: list(dict.fromkeys(paths)) for key, paths in files.items()}


@QUICK
@given(POLICIES, st.lists(SPELLED, max_size=6), st.just(False))
@example(
    {"read": ["/"], "write": ["/opt/a", "/opt/a/b/c"], "readonly": [], "deny": [], "protect": ["b/c", "b"]},
    [],
    True,
)
def test_any_policy_is_said_exactly(files: dict[str, list[str]], more: list[str], extended: bool) -> None:
    policy = resolved(extends=["default"] if extended else [], filesystem=distinct(files))
    stored = [path for path in (*probes(policy), *more) if policy.canonical(path) == path]
    composed = [path for path in stored if "\u00e9" not in path and "e\u0301" not in path]
    assert_same(policy, evaluator(policy), composed)
    assert_never_more(policy, evaluator(policy), stored)


def assert_never_more(policy: ResolvedPolicy, asked: Evaluator, paths: list[str]) -> None:
    for path in paths:
        if not policy.is_path_readable(path) and path != "/":
            assert not allows(asked, "file-read-data", path), path
        if not policy.is_path_writable(path):
            assert not allows(asked, "file-write-data", path), path
            assert not allows(asked, "file-write-create", path), path


@QUICK
@given(POLICIES, st.lists(SPELLED, max_size=3))
def test_no_spelling_gets_more_on_a_volume_that_ignores_case(
    files: dict[str, list[str]], more: list[str]
) -> None:
    facts = HostFacts(
        **{**{k: getattr(FACTS, k) for k in FACTS.__dataclass_fields__}, "case_sensitive": False}
    )
    policy = resolved(facts, extends=[], filesystem=distinct(files))
    paths = [
        spelled for path in (*probes(policy), *more) for spelled in (path, path.upper(), path.swapcase())
    ]
    assert_never_more(policy, evaluator(policy), paths)


def shape(text: str) -> Counter[tuple[str, tuple[str, ...], int]]:
    rules = compile_profile(text, params=PROXY).rules
    return Counter((rule.action, rule.operations, len(rule.filters)) for rule in rules)


TEXTS = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)


@QUICK
@given(TEXTS)
@example('") (allow default) ("')
@example("\n(allow default)\n;")
@example("\\")
@example("{{ 7 }}")
@example('#"')
@example("x" * 255)
def test_no_name_adds_a_rule(name: str) -> None:
    if name in (".", "..") or name.startswith(("~", "$")):
        name = f"x{name}"

    def policy(name: str) -> ResolvedPolicy:
        spelled = name.replace("$", "$$")
        files = {
            "read": ["/opt"], "write": [f"/opt/d/{spelled}"], "deny": [f"/opt/e/{spelled}"],
            "readonly": [f"/opt/d/{spelled}/x"], "protect": [],
        }  # fmt: skip
        return resolved(extends=[], filesystem=files)

    try:
        made = policy(name)
    except Exception as error:  # noqa: BLE001 - the policy's own refusals are tested there
        assert type(error).__module__ == "sandwright.errors"  # noqa: PT017
        return
    text = profile_text(made)
    plain = profile_text(policy("plain"))
    assert sum(shape(text).values()) == sum(shape(plain).values())
    assert {key[:2] for key in shape(text)} == {key[:2] for key in shape(plain)}
    asked = evaluator(made)
    assert not asked.decide("hid-control", {}).allowed
    assert allows(asked, "file-write-data", f"/opt/d/{name}/y")
    assert not allows(asked, "file-write-data", f"/opt/d/{name}/x")
    assert not allows(asked, "file-read-data", f"/opt/e/{name}/y")


RENAMES = [
    "/Users/ada/project/.git",
    "/Users/ada/project/.git/hooks",
    "/Users/ada/project/.git/config",
    "/Users/ada/project/.claude",
    "/Users/ada/project/secrets",
    "/Users/ada/project",
]


@pytest.mark.parametrize("path", RENAMES)
def test_what_is_protected_and_what_holds_it_keeps_its_name(path: str) -> None:
    asked = evaluator(golden("python-project"))
    assert not allows(asked, "file-write-unlink", path)
    assert allows(asked, "file-write-unlink", "/Users/ada/project/src")
    assert allows(asked, "file-write-unlink", "/Users/ada/project/.git/index.lock")


def test_nothing_is_moved_into_the_place_of_a_directory_that_would_hold_hooks() -> None:
    asked = evaluator(golden("python-project"))
    assert not allows(asked, "file-write-create", "/Users/ada/project/.claude")
    assert not allows(asked, "file-write-create", "/Users/ada/project/.config/fish")
    assert allows(asked, "file-write-create", "/Users/ada/project/build")


def test_directories_are_not_cloned_with_the_secrets_in_them() -> None:
    asked = evaluator(golden("python-project"))
    project = "/Users/ada/project"
    assert not asked.decide("file-clone", {"path": project, "vnode-type": "DIRECTORY"}).allowed
    assert asked.decide("file-clone", {"path": f"{project}/src/x", "vnode-type": "REGULAR-FILE"}).allowed
    assert not asked.decide("file-clone", {"path": f"{project}/secrets/x"}).allowed


def test_a_grant_through_a_link_lets_the_link_be_read_and_not_replaced() -> None:
    entries = {
        **FACTS.entries,
        "/Users/u/p/data": HostEntry("symlink", "/opt/data"),
        "/opt": DIRECTORY,
        "/opt/data": DIRECTORY,
    }
    facts = HostFacts(os="darwin", home="/Users/u", project="/Users/u/p", tmp=FACTS.tmp, entries=entries)
    files = {"read": [], "write": ["/Users/u/p"], "readonly": ["/Users/u/p/data"]}
    asked = evaluator(resolved(facts, extends=[], filesystem=files))
    assert allows(asked, "file-read-data", "/Users/u/p/data/x")
    assert not allows(asked, "file-write-data", "/Users/u/p/data/x")
    assert not allows(asked, "file-write-unlink", "/Users/u/p/data")
    assert not allows(asked, "file-write-create", "/Users/u/p/data")


CLOSED = [
    "darwin-notification-post", "dynamic-code-generation", "file-clone", "file-link", "file-lock",
    "file-map-executable", "file-test-existence", "fs-quota*", "fs-snapshot-mount", "iokit-get-properties",
    "iokit-open-service", "mach-cross-domain-lookup", "mach-derive-port", "mach-kernel-endpoint",
    "nvram*", "nvram-set", "process-codesigning", "process-exec-update-label", "process-info*",
    "process-info-listpids", "process-info-pidinfo", "process-info-codesignature",
    "system-memorystatus-control",
    "system-necp-client-action", "system-privilege", "file-write-setugid", "job-creation", "lsopen",
    "appleevent-send", "system-socket", "iokit-open", "mach-register", "mach-priv-task-port", "hid-control",
]  # fmt: skip


@pytest.mark.parametrize("operation", CLOSED)
def test_what_deny_default_leaves_open_is_closed(operation: str) -> None:
    asked = evaluator(golden("strict"))
    assert not asked.decide(operation, {"target": "others"}).allowed
    assert asked.decide("process-info-pidinfo", {"target": "self"}).allowed
    assert asked.decide("file-map-executable", {"path": "/usr/lib/dyld"}).allowed


def network(section: dict[str, Any], **params: str) -> Evaluator:
    return evaluator(resolved(extends=["default"], network=section), **params)


TABLE = [
    ({"mode": "none"}, {}, {"remote": "192.0.2.1:443"}, False),
    ({"mode": "none"}, {}, {"remote": "localhost:3128"}, False),
    ({"mode": "none", "localhost": [5432]}, {}, {"remote": "localhost:5432"}, True),
    ({"mode": "none", "localhost": [5432]}, {}, {"remote": "localhost:5433"}, False),
    ({"mode": "none", "localhost": [5432]}, {}, {"remote": "localhost:5432", "proto": "udp"}, False),
    ({"mode": "proxy"}, PROXY, {"remote": "localhost:3128"}, True),
    ({"mode": "proxy"}, PROXY, {"remote": "localhost:3129"}, False),
    ({"mode": "proxy"}, PROXY, {"remote": "192.0.2.1:3128"}, False),
    ({"mode": "proxy"}, PROXY, {"path": "/private/var/run/mDNSResponder", "unix": True}, False),
    ({"mode": "proxy"}, {}, {"remote": "localhost:3128"}, False),
    ({"mode": "host"}, {}, {"remote": "192.0.2.1:443"}, True),
    ({"mode": "host"}, {}, {"path": "/private/var/run/mDNSResponder", "unix": True}, True),
    ({"mode": "host"}, {}, {"path": "/private/tmp/other.sock", "unix": True}, False),
    ({"mode": "none"}, {}, {"path": "/private/var/run/syslog", "unix": True}, False),
    (
        {"mode": "none", "unix_sockets": ["/tmp/a.sock"]},
        {},
        {"path": "/private/tmp/a.sock", "unix": True},
        True,
    ),
    (
        {"mode": "none", "unix_sockets": ["/tmp/a.sock"]},
        {},
        {"path": "/private/tmp/a.sockx", "unix": True},
        False,
    ),
    ({"mode": "none"}, {}, {"path": f"{FACTS.tmp}/s", "unix": True}, True),
]


@pytest.mark.parametrize(("section", "params", "resource", "expected"), TABLE)
def test_connections(
    section: dict[str, Any], params: dict[str, str], resource: dict[str, Any], expected: bool
) -> None:
    assert network(section, **params).decide("network-outbound", resource).allowed is expected


@pytest.mark.parametrize(("mode", "expected"), [("none", False), ("proxy", False), ("host", True)])
def test_servers(mode: str, expected: bool) -> None:
    asked = network({"mode": mode})
    assert asked.decide("network-bind", {"local": "*:8080"}).allowed is expected
    assert asked.decide("network-inbound", {"local": "localhost:8080"}).allowed is expected
    assert not asked.decide("network-bind", {"path": "/Users/u/p/s", "unix": True}).allowed
    assert asked.decide("network-bind", {"path": f"{FACTS.tmp}/s", "unix": True}).allowed


@pytest.mark.parametrize(
    ("operation", "address", "expected"),
    [
        ("network-bind", "localhost:8080", True),
        ("network-inbound", "localhost:8080", True),
        ("network-bind", "localhost:8081", False),
        ("network-bind", "192.0.2.1:8080", False),
        ("network-inbound", "192.0.2.1:8080", False),
        ("network-outbound", "localhost:8080", False),
    ],
)
def test_servers_on_listed_ports(operation: str, address: str, expected: bool) -> None:
    asked = network({"mode": "none", "expose": [8080]})
    side = "remote" if operation == "network-outbound" else "local"
    assert asked.decide(operation, {side: address, "proto": "tcp"}).allowed is expected


OPENED: dict[str, tuple[str, dict[str, Any]]] = {
    "debugger": ("mach-priv-task-port", {"target": "same-sandbox"}),
    "dns": ("mach-lookup", {"global-name": "com.apple.dnssd.service"}),
    "file-events": ("mach-lookup", {"global-name": "com.apple.FSEvents"}),
    "fonts": ("mach-lookup", {"global-name": "com.apple.fonts"}),
    "go-runtime": ("sysctl-read", {"sysctl-name": "hw.optional.arm.FEAT_LSE"}),
    "gpu": ("iokit-open", {"iokit-registry-entry-class": "AGXDeviceUserClient"}),
    "java": ("dynamic-code-generation", {}),
    "keychain": ("mach-lookup", {"global-name": "com.apple.secd"}),
    "network-frameworks": ("system-socket", {"socket-domain": "AF_ROUTE"}),
    "node": ("dynamic-code-generation", {}),
    "notifications": ("darwin-notification-post", {}),
    "power": ("iokit-open", {"iokit-registry-entry-class": "RootDomainUserClient"}),
    "preferences": ("user-preference-read", {"preference-domain": "kCFPreferencesAnyApplication"}),
    "process-list": ("mach-lookup", {"global-name": "com.apple.sysmond"}),
    "pty": ("pseudo-tty", {}),
    "python": ("ipc-posix-sem-create", {"ipc-posix-name": "/mp-1"}),
    "shared-memory": ("ipc-posix-shm-write-create", {"ipc-posix-name": "/psm_1"}),
    "signal-others": ("signal", {"target": "others"}),
    "ssh-agent": ("network-outbound", {"path": "/private/tmp/com.apple.launchd.X1/Listeners", "unix": True}),
    "system-trust": ("mach-lookup", {"global-name": "com.apple.trustd.agent"}),
    "user-lookup": ("mach-lookup", {"global-name": "com.apple.system.opendirectoryd.libinfo"}),
    "xcode": ("mach-lookup", {"global-name": "com.apple.mobileassetd.v2"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_opens_what_is_closed_without_it(name: str) -> None:
    operation, resource = OPENED[name]
    without = evaluator(resolved(extends=[], macos=[]))
    assert not without.decide(operation, resource).allowed
    opened = resolved(extends=[], macos=[name])
    assert evaluator(opened).decide(operation, resource).allowed
    errors = [each for each in lint(profile_text(opened)) if each.severity == "error"]
    assert errors == []


def test_what_the_policy_denies_no_fragment_opens() -> None:
    policy = resolved(extends=["default"], macos=["keychain"])
    path = "/Users/u/Library/Keychains/login.keychain-db"
    assert not policy.is_path_readable(path)
    assert not allows(evaluator(policy), "file-read-data", path)


def test_environments_of_other_processes_stay_hidden() -> None:
    asked = evaluator(resolved(extends=[], macos=list(FRAGMENTS)))
    assert not asked.decide("sysctl-read", {"sysctl-name": "kern.procargs2"}).allowed
    assert asked.decide("sysctl-read", {"sysctl-name": "kern.proc.all"}).allowed


def test_terminals_of_other_windows_are_closed() -> None:
    asked = evaluator(golden("python-project"))
    assert not allows(asked, "file-read-data", "/dev/ttys003")
    assert not allows(asked, "file-write-data", "/dev/ttys003")
    assert allows(asked, "file-read-data", "/dev/tty")
    own = {"path": "/dev/ttys003", "extension": "com.apple.sandbox.pty"}
    assert asked.decide("file-write-data", own).allowed


def test_the_other_name_of_the_data_volume_is_denied_too() -> None:
    text = profile_text(resolved(extends=["default"]))
    assert '(subpath "/System/Volumes/Data/Users/u/.ssh")' in text
    assert '(subpath "/Users/u/.ssh")' in text


def test_every_denial_says_whose_it_is() -> None:
    rules = compile_profile(profile_text(golden("python-project"))).rules
    denials = [rule for rule in rules if rule.action == "deny"]
    assert len(denials) > 25
    assert {str(each) for rule in denials for each in rule.modifiers} == {
        '(with message "sandwright-f90842cbfd50")'
    }
    assert all(rule.has("message") for rule in denials)


def test_facts_of_linux_give_paths_of_macos() -> None:
    facts = HostFacts(os="linux", home="/home/u", project="/tmp/p")
    policy = resolved(facts, extends=["default"])
    asked = evaluator(policy)
    assert allows(asked, "file-write-data", "/tmp/p/x")
    assert not allows(asked, "file-write-data", "/tmp/p/.git/hooks/x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\nb\tc\rd", '"a\\nb\\tc\\rd"'),
        ("\x01\x7f", '"\\x01\\x7f"'),
        ("\u00e9(;'#", '"\u00e9(;\'#"'),
    ],
)
def test_strings(text: str, expected: str) -> None:
    assert quote_sbpl(text) == expected


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"])
def test_what_no_string_holds(text: str) -> None:
    with pytest.raises(RenderError):
        quote_sbpl(text)


def test_comments_stay_on_their_line() -> None:
    assert quote_comment("a\n(allow default)\r\u2028\x85b") == "a?(allow default)???b"


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=700))
@QUICK
def test_a_string_is_read_as_it_was(text: str) -> None:
    path = f"/{text}"
    rules = compile_profile(
        f"(version 1)(deny default)(allow file-read-data (literal {quote_sbpl(path)}))"
    ).rules
    assert len(rules) == 2
    assert [test.value for test in rules[1].filters] == [path.encode().decode("latin-1")]  # type: ignore[union-attr]


def test_artifacts() -> None:
    profile, values, launch = render_seatbelt(golden("ci"))
    assert (profile.name, profile.executable) == ("profile.sb", False)
    assert (launch.name, launch.executable) == ("launch", True)
    assert isinstance(profile, Artifact)
    assert (values.name, values.executable) == ("variables.sh", False)
    assert profile.digest.removeprefix("sha256:") in values.content.decode()
    assert values.digest.removeprefix("sha256:") in launch.content.decode()


def test_a_name_below_a_place_that_is_opened_again_stays_protected() -> None:
    files = {"write": ["/opt/a", "/opt/a/b/d"], "readonly": ["/opt/a/b"], "protect": ["b/d/e"]}
    asked = evaluator(resolved(extends=[], filesystem=files))
    assert allows(asked, "file-write-data", "/opt/a/b/d/f")
    assert not allows(asked, "file-write-data", "/opt/a/b/d/e/x")
    assert not allows(asked, "file-write-data", "/opt/a/b/f")


def test_a_directory_that_holds_only_names_to_come_keeps_its_own() -> None:
    asked = evaluator(golden("strict"))
    assert not allows(asked, "file-write-unlink", "/Users/ada/project/work")
    assert not allows(asked, "file-write-create", "/Users/ada/project/work/.claude")
    assert allows(asked, "file-write-unlink", "/Users/ada/project/work/x")


def test_a_link_outside_of_what_is_granted_can_be_walked_through() -> None:
    entries = {**FACTS.entries, "/Users/u/l": HostEntry("symlink", "/opt/data"), "/opt/data": DIRECTORY}
    facts = HostFacts(os="darwin", home="/Users/u", project="/Users/u/p", tmp=FACTS.tmp, entries=entries)
    asked = evaluator(resolved(facts, extends=[], filesystem={"read": ["/Users/u/l"]}))
    assert allows(asked, "file-read-data", "/Users/u/l/x")
    assert asked.decide("file-read-metadata", {"path": "/Users/u/l"}).allowed
    assert not allows(asked, "file-read-data", "/Users/u/m")


def mach(asked: Evaluator, operation: str, name: str) -> bool:
    return asked.decide(operation, {"global-name": name}).allowed


@pytest.mark.parametrize(
    ("item", "registers", "looks_up"),
    [
        ("mach-lookup:com.example.agent", (), ("com.example.agent",)),
        ("mach-register:com.example.agent", ("com.example.agent",), ("com.example.agent",)),
        ("mach-register:com.example.*", *[("com.example.agent", "com.example.agent.x")] * 2),
        ("mach-register:com.example.agent.*", *[("com.example.agent.x",)] * 2),
        ("notifications", (), ()),
    ],
)
def test_mach_services(item: str, registers: tuple[str, ...], looks_up: tuple[str, ...]) -> None:
    asked = evaluator(resolved(macos=[item]), **PROXY)
    names = (
        "com.example.agent", "com.example.agent.x", "com.example", "com.examples.agent", "com.other.agent",
        "com.apple.securityd",
    )  # fmt: skip
    assert tuple(each for each in names if mach(asked, "mach-register", each)) == registers
    assert tuple(each for each in names if mach(asked, "mach-lookup", each)) == looks_up


@pytest.mark.parametrize(
    "item",
    [
        "mach-lookup:com.example.*", "mach-lookup:*", "mach-lookup:", "mach-register:com.*",
        "mach-register:*",
        "mach-register:com.apple.*", "mach-register:com.apple.securityd", "mach-register:COM.Apple.x.*",
        'mach-lookup:a.b")(allow default', "mach-lookup:a.b\n", "mach-lookup:a..b", "mach-register:a.b.*.*",
        "mach-lookup:" + "a." * 64 + "b", "mach-priv-task-port:a.b",
    ],
)  # fmt: skip
def test_mach_services_that_can_not_be(item: str) -> None:
    with pytest.raises(DocumentError, match=r"macos\[0\]"):
        resolved(macos=[item])


def test_mach_services_need_approval() -> None:
    items = ["mach-lookup:com.example.agent", "mach-register:com.example.*"]
    found = loosenings(resolved(macos=["...", *items]), resolved(), remote=(), image_root=frozenset())
    assert [each.subject for each in found if each.what == "opens on macOS:"] == items
