"""The accesses that a policy allows and the preset `default` doesn't, found by comparing the two.

Tests of policy/loosening.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError
from sandwright.policy import load
from sandwright.policy.agents import AGENTS
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.layers import FIELDS
from sandwright.policy.loosening import loosenings, without_command_line, without_project
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import GENERAL
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.secretnames import why_secret
from sandwright.policy.spelling import expand_path
from support.thorough import examples

FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        "/home/u/alias": HostEntry("symlink", ".ssh"),
        "/home/u/p/keys": HostEntry("symlink", "../.ssh"),
        "/home/u/p/up": HostEntry("symlink", "../../other"),
        "/etc/filter.json": HostEntry("file"),
    },
    texts={"/etc/filter.json": "{}"},
)


def _found(
    project: str, *, user: str = "", floor: str = "", run: str = "", facts: HostFacts = FACTS
) -> list[str]:
    given: list[tuple[load.LayerKind, str]] = [
        ("floor", floor),
        ("user", user),
        ("project", project),
        ("run", run),
    ]
    layers = [
        load.layer(text, kind=kind, file=f"{kind}.yaml") for kind, text in given if text or kind == "project"
    ]
    policy = Policy.from_layers(layers)

    def here(each: MergedPolicy) -> ResolvedPolicy:
        names = each.environment_names()
        used = {name: value for name, value in facts.environment.items() if name in names}
        return each.resolve(replace(facts, environment=used))

    mine, baseline = here(without_command_line(policy)), here(without_project(policy))
    return [
        str(each)
        for each in loosenings(mine, baseline, remote={"kubernetes"}, image_root={"docker", "gvisor"})
    ]


FILTER = "filters system calls as a file says: /etc/filter.json (sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a)"

NOTHING = [
    "",
    "method: bwrap",
    "filesystem: {write: [$PROJECT], deny: [~/.ssh, $PROJECT/.env]}",
    "filesystem: {write: [$PROJECT/build]}",
    "filesystem: {read: []}",
    "filesystem: {read: [/, ~/.ssh]}",  # at the same path the denial of the preset wins
    "filesystem: {read: [~/.ssh/../p]}".replace("/.ssh/..", ""),
    "filesystem: {protect: [build]}",
    "network: {mode: proxy, allow: [pypi.org, api.anthropic.com, registry.npmjs.org:443]}",
    "process: {seccomp: strict}",
    "macos: [pty, system-trust]",
    "environment: {pass: [TERM, LC_ALL, EDITOR, GOPATH], set: {API_TOKEN: none}}",
    "resources: {memory: 2GiB, time: 30m}",
    "image: alpine",
    "methods: [gvisor, docker]",
]


@pytest.mark.parametrize("policy", NOTHING)
def test_nothing_more(policy: str) -> None:
    assert _found(policy) == []


BUILD = "lets programs leave set-user-id files: process.seccomp build"


@pytest.mark.parametrize("preset", GENERAL)
def test_general_presets_open_nothing_but_set_user_id(preset: str) -> None:
    assert _found(f"extends: [{preset}]") == ([BUILD] if preset == "build" else [])


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agents_preset_in_a_strangers_policy_needs_a_word(agent: str) -> None:
    """Such a preset would use the login that the user keeps for that agent."""
    found = _found(f"extends: [agent-{agent}]")
    assert [each for each in found if each.startswith("reads ")] == [], "it is read where it is written"
    assert any(each.startswith("passes ") for each in found)
    assert agent == "aider" or f"writes ~/.local/state/sandwright/state/{agent}" in found


MORE = [
    ("method: noop\nreason: none", ["enforces nothing: method noop"]),
    ("process: {sandbox_root: true}", ["lets programs gain rights: process.sandbox_root"]),
    ("user: {mapping: off}".replace("off", "'off'"), ["runs as the image's own user: user.mapping off"]),
    ("process: {seccomp: /etc/filter.json}", [FILTER]),
    ("process: {seccomp: build}", [BUILD]),
    ("method: kubernetes\nimage: debian", ["runs on another machine with your credentials: method kubernetes"]),
    ("methods: [bwrap, kubernetes]\nimage: debian", ["runs on another machine with your credentials: method kubernetes"]),
    ("network: {mode: proxy, allow: [evil.example]}", ["connects to evil.example"]),
    ("network: {mode: none, allow: [evil.example]}", ["connects to evil.example"]),  # the command line may open the proxy
    ("network: {mode: proxy, allow: ['*.pypi.org', 'pypi.org:8443', 'pypi.org:*', ns.pypi.org.evil.example]}", ["connects to *.pypi.org", "connects to pypi.org:8443", "connects to pypi.org:*", "connects to ns.pypi.org.evil.example"]),
    ("macos: ['...', keychain]", ["opens on macOS: keychain"]),
    ("credentials: {signing: [~/.ssh/id.pub]}", ["signs commits and tags of the project with ~/.ssh/id.pub"]),
    ("credentials: {shims: {gh: {secrets: {GH_TOKEN: '${HOST_TOKEN}'}, allow: ['pr *', auth status]}}}", ["runs gh on the host (pr *, auth status) with HOST_TOKEN"]),
    ("network: {mode: host}", ["uses the host's network"]),
    ("network: {mode: proxy, allow: ['*:*', 10.0.0.1]}", ["connects to *:*", "connects to 10.0.0.1"]),
    ("network: {mode: proxy, allow: [a.example, {host: b.example, private: true}]}", ["connects to a.example", "reaches private addresses as b.example"]),
    ("network: {expose: [3000]}", ["answers on the host at localhost:3000"]),
    ("network: {unix_sockets: [/srv/x.sock, ~/alias/agent], localhost: [5432]}", ["connects to /srv/x.sock", "connects to ~/.ssh/agent", "connects to localhost:5432"]),
    ("environment: {pass: [AWS_PROFILE, NODE_*, npm_config__auth, TERM]}", ["passes AWS_PROFILE", "passes NODE_*", "passes npm_config__auth"]),
    ("filesystem: {unprotect: [{path: ~/.ssh, reason: x}]}", ["reads ~/.ssh"]),
    ("filesystem: {read: [~/.ssh/id]}", ["reads ~/.ssh/id"]),
    ("filesystem: {readonly: [~/.ssh/id]}", ["reads ~/.ssh/id"]),
    ("filesystem: {read: [~/alias/id]}", ["reads ~/.ssh/id"]),
    ("filesystem: {read: [/run/user/1000/bus]}", ["reads /run/user/1000/bus"]),
    ("filesystem: {write: [$PROJECT, ~/.cache]}", ["writes ~/.cache"]),
    ("filesystem: {read: [/], write: [/srv/a]}", ["writes /srv/a"]),
    ("filesystem: {write: [$PROJECT, /srv/a]}", ["writes /srv/a"]),
    ("filesystem: {write: [$PROJECT/up]}", ["writes /home/other"]),
    ("filesystem: {write: [$PROJECT, $PROJECT/.git/hooks/pre-commit]}", ["writes $PROJECT/.git/hooks/pre-commit"]),
    ("filesystem: {unprotect: [{path: $PROJECT/.envrc, reason: x}]}", ["writes $PROJECT/.envrc"]),
    ("filesystem: {write: [$PROJECT, /srv/a, /srv/a/b], readonly: [/srv/a/c]}", ["writes /srv/a"]),
    ("filesystem: {write: [$PROJECT, /srv/a/b], readonly: [/srv/a/b/c], read: [/, ~/.ssh/keys, ~/.ssh/keys/id]}", ["reads ~/.ssh/keys", "writes /srv/a/b"]),
    ("filesystem: {write: [$PROJECT, $HOME], read: [/, ~/.ssh/id]}", ["reads ~/.ssh/id", "writes ~"]),
    ("filesystem: {tmp: shared}", ["writes /tmp"]),
    ("filesystem: {read: [/tmp/shared]}", ["reads /tmp/shared"]),
    ("credentials: {cloud: readonly}", ["reads ~/.aws", "reads ~/.azure", "reads ~/.config/gcloud"]),
    ("accept_gaps: [{feature: network.none, method: user, reason: x}]", ["does without network.none under user"]),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "said"), MORE)
def test_more(policy: str, said: list[str]) -> None:
    assert _found(policy) == said


def test_a_policy_without_the_preset() -> None:
    found = _found("extends: []\nfilesystem: {read: [/], write: [$PROJECT]}")
    assert {"reads ~/.ssh", "reads /etc/shadow", "reads /run", "writes $PROJECT/.git/hooks"} <= {*found}
    assert "writes $PROJECT/sandbox.yaml" not in found


def test_what_the_user_and_the_operator_say_needs_no_word() -> None:
    loose = "network: {mode: host, unix_sockets: [/srv/x.sock]}\nenvironment: {pass: ['...', A_TOKEN]}\nfilesystem: {write: [$PROJECT, /data]}"
    assert _found(loose, user=loose) == []
    operator = "network: {mode: host, unix_sockets: [/srv/x.sock]}"
    assert _found(operator, floor=operator) == []
    assert _found("", user=loose) == []
    assert _found("network: {unix_sockets: ['...', /srv/y.sock]}", user=loose) == ["connects to /srv/y.sock"]


GH = "{gh: {secrets: {GH_TOKEN: '${GH_TOKEN}'}, allow: ['pr *']}}"
OWN = "{own: {secrets: {TOKEN: '${HARMLESS}'}, allow: [x]}}"
STRICTER = [
    ("method", "method: gvisor", "method: landlock", ["uses a method that your own policy does not name: landlock"]),
    ("methods", "methods: [gvisor, vm]", "methods: [vm, bwrap]", ["uses a method that your own policy does not name: bwrap"]),
    ("filesystem.read", "extends: [strict]", "extends: [default]", ["reads /", "filters system calls by another profile: process.seccomp default"]),
    ("filesystem.write", "filesystem: {write: [$PROJECT/build]}", "filesystem: {write: [$PROJECT]}", ["writes $PROJECT"]),
    ("filesystem.deny", "filesystem: {deny: [~/x]}", "filesystem: {read: [..., ~/x/y]}", ["reads ~/x/y"]),
    ("filesystem.readonly", "filesystem: {readonly: [$PROJECT/a]}", "filesystem: {write: [$PROJECT, $PROJECT/a/b]}", ["writes $PROJECT/a/b"]),
    ("filesystem.protect", "filesystem: {protect: [ci]}", "filesystem: {write: [$PROJECT, $PROJECT/ci/x]}", ["writes $PROJECT/ci/x"]),
    ("filesystem.unprotect", "filesystem: {deny: [~/x]}", "filesystem: {unprotect: [{path: ~/x, reason: x}]}", ["reads ~/x"]),
    ("filesystem.git", "filesystem: {git: []}", "filesystem: {git: [config]}", ["writes $PROJECT/.git/config"]),
    ("filesystem.placeholders", "filesystem: {placeholders: true}", "filesystem: {placeholders: false}", ["lets programs write for a moment to protected files that the host creates during a run: filesystem.placeholders false"]),
    ("filesystem.home", "filesystem: {home: private}", "filesystem: {home: host}", ["reads ~"]),
    ("filesystem.home", "filesystem: {home: throwaway}", "filesystem: {home: private}", ["keeps the home directory between runs: filesystem.home private"]),
    ("filesystem.tmp", "filesystem: {tmp: private}", "filesystem: {tmp: shared}", ["writes /tmp"]),
    ("network.mode", "network: {allow: [a.example, {host: b.example, private: true}]}", "network: {mode: proxy}", ["connects to a.example", "reaches private addresses as b.example"]),
    ("network.allow", "network: {mode: proxy, allow: [a.example]}", "network: {allow: [..., c.example]}", ["connects to c.example"]),
    ("network.http", "network: {mode: proxy, http: [{host: a.example, methods: [GET]}]}", "network: {http: [{host: a.example}]}", ["requests from a.example: any method any path"]),
    ("network.http", "network: {mode: proxy, http: [{host: api.anthropic.com, methods: [GET]}]}", "network: {http: [], allow: [api.anthropic.com]}", ["connects past its rules in network.http to api.anthropic.com"]),
    ("network.http", "extends: [agent-claude]\nnetwork: {mode: proxy, http: [{host: api.anthropic.com, methods: [GET]}]}", "network: {http: []}", ["connects past its rules in network.http to api.anthropic.com"]),
    ("network.http", "network: {mode: proxy, allow: ['*.a.example'], http: [{host: b.a.example, methods: [GET]}]}", "network: {http: []}", ["connects past its rules in network.http to b.a.example"]),
    ("network.http", "network: {mode: proxy, http: [{host: api.anthropic.com, methods: [GET]}]}", "network: {http: [], allow: ['api.anthropic.com:80']}", ["connects past its rules in network.http to api.anthropic.com"]),
    ("network.http", "network: {mode: proxy, http: [{host: api.anthropic.com, methods: [GET]}]}", "network: {http: [{host: 'api.anthropic.com:80'}]}", ["connects to api.anthropic.com:80"]),
    ("network.http", "network: {mode: none, allow: [a.example]}", "network: {mode: proxy, http: [{host: a.example}]}", ["connects to a.example"]),
    ("network.http", "network: {mode: none, http: [{host: a.example, methods: [GET]}]}", "network: {mode: proxy}", ["connects to a.example"]),
    ("credentials.http", "network: {mode: proxy, http: [{host: a.example}]}\ncredentials: {http: [{host: a.example, header: x-api-key, from: 'cmd:op read x', lifetime: 10m}]}", "credentials: {http: [{host: a.example, header: x-api-key, from: 'cmd:op read x', lifetime: 1s}]}", ["reads a secret of yours more often, cmd:op read x, each 1 s"]),
    ("credentials.http", "network: {mode: proxy, http: [{host: a.example}]}", "credentials: {http: [{host: a.example, header: x-api-key, from: 'env:A'}]}", ["sends a secret of yours, env:A, to a.example as x-api-key"]),
    ("network.unix_sockets", "network: {unix_sockets: []}", "network: {unix_sockets: [/srv/x.sock]}", ["connects to /srv/x.sock"]),
    ("network.own_sockets", "network: {own_sockets: false}", "network: {own_sockets: true}", ["lets programs create Unix sockets: network.own_sockets"]),
    ("network.localhost", "network: {localhost: []}", "network: {localhost: [5432]}", ["connects to localhost:5432"]),
    ("network.expose", "network: {expose: []}", "network: {expose: [3000]}", ["answers on the host at localhost:3000"]),
    ("process.sandbox_root", "process: {sandbox_root: false}", "process: {sandbox_root: true}", ["lets programs gain rights: process.sandbox_root"]),
    ("process.seccomp", "process: {seccomp: strict}", "process: {seccomp: default}", ["filters system calls by another profile: process.seccomp default"]),
    ("process.seccomp", "process: {seccomp: /etc/filter.json}", "process: {seccomp: default}", ["filters system calls by another profile: process.seccomp default"]),
    ("process.seccomp", "process: {seccomp: /etc/filter.json}", "process: {seccomp: strict}", ["filters system calls by another profile: process.seccomp strict"]),
    ("macos", "macos: []", "macos: [keychain]", ["opens on macOS: keychain"]),
    ("mcp.tools", "mcp: {tools: [a, 'b*']}", "mcp: {tools: [a, b1, c, '*']}", ["lets a client of MCP call the tool c", "lets a client of MCP call the tool *"]),
    ("mcp.tools", "mcp: {tools: []}", "mcp: {tools: ['...', a]}", ["lets a client of MCP call the tool a"]),
    ("environment.pass", "environment: {pass: []}", "environment: {pass: [A_TOKEN]}", ["passes A_TOKEN"]),
    ("environment.set", "environment: {pass: ['GH_*'], set: {GH_TOKEN: none}}", "environment: {set: {GH_TOKEN: null}}", ["passes GH_TOKEN"]),
    ("credentials.cloud", "credentials: {cloud: none}", "credentials: {cloud: readonly}", ["reads ~/.aws"]),
    ("credentials.shims", f"credentials: {{shims: {GH}}}", "credentials: {shims: {gh: {allow: ['*']}}}", ["runs gh on the host (*)"]),
    ("credentials.shims", f"credentials: {{shims: {GH}}}", "credentials: {shims: {gh: {allow: [pr list --repo acme/secret *]}}}", ["runs gh on the host (pr list --repo acme/secret *)"]),
    ("credentials.shims", "credentials: {shims: {git: {allow: ['push *']}}}", "credentials: {shims: {git: {allow: ['push https://evil.example/x.git']}}}", ["runs git on the host (push https://evil.example/x.git)"]),
    ("credentials.shims", "credentials: {shims: {kubectl: {allow: ['get *']}}}", "credentials: {shims: {kubectl: {allow: ['get pods --kubeconfig=/x *']}}}", ["runs kubectl on the host (get pods --kubeconfig=/x *)"]),
    ("credentials.shims", f"environment: {{pass: ['GH_*']}}\ncredentials: {{shims: {GH}}}", "credentials: {shims: {gh: null}}", ["passes GH_TOKEN"]),
    ("credentials.shims", f"environment: {{pass: ['GH_*']}}\ncredentials: {{shims: {GH}}}", "credentials: {shims: {gh: {allow: ['pr *']}}}", ["passes GH_TOKEN"]),
    ("credentials.shims", f"credentials: {{shims: {OWN}}}", "environment: {pass: [HARMLESS]}\ncredentials: {shims: {own: null}}", ["passes HARMLESS"]),
    ("credentials.shims", f"credentials: {{shims: {OWN}}}", "filesystem: {read: [/, '/srv/${HARMLESS}']}\ncredentials: {shims: {own: null}}", ["shows in the name of a path HARMLESS"]),
    ("credentials.signing", "credentials: {signing: [~/.ssh/a.pub]}", "credentials: {signing: ['...', ~/.ssh/b.pub]}", ["signs commits and tags of the project with ~/.ssh/b.pub"]),
    ("credentials.signing", "credentials: {signing: []}", f"credentials: {{signing: ['SHA256:{'a' * 43}']}}", [f"signs commits and tags of the project with SHA256:{'a' * 43}"]),
    ("workspace", "workspace: review", "workspace: live", ["changes the project without review: workspace live"]),
    ("user.mapping", "user: {mapping: required}", "user: {mapping: auto}", ["lets files belong to another user: user.mapping auto"]),
    *((f"resources.{name}", f"resources: {{{name}: {less}}}", f"resources: {{{name}: unlimited}}", [f"has no limit of {name}"])
        for name, less in (("memory", "1GiB"), ("cpus", "1"), ("pids", "9"), ("files", "9"), ("time", "1s"))),
    ("accept_gaps", "accept_gaps: []", "accept_gaps: [{feature: network.none, method: user, reason: x}]", ["does without network.none under user"]),
]  # fmt: skip
"""A field, the user's restriction of it, and a project's file that lifts the restriction."""

NEED_NO_APPROVAL = {"cache", "network.ca", "image", "gvisor.engine", "reason"}
"""Fields that give no further access, or only access to directories of this project."""


@pytest.mark.parametrize(("field", "own", "project", "found"), STRICTER)
def test_restrictions_of_the_user_are_not_lifted(
    field: str, own: str, project: str, found: list[str]
) -> None:
    facts = replace(FACTS, environment={"HARMLESS": "x"} if "${HARMLESS}'" in project else {})
    assert set(found) <= set(_found(project, user=own, facts=facts))
    assert _found(own, user=own) == [], field
    assert _found("", user=own) == []


@pytest.mark.parametrize(
    ("project", "user", "said"),
    [
        ("filesystem: {read: ['...', ~/notes]}", "method: docker", ["reads ~/notes"]),
        ("filesystem: {read: [/srv]}", "methods: [gvisor, docker]", ["reads /srv"]),
        ("filesystem: {read: [/srv/a]}\nmethod: docker", "methods: [gvisor, docker]", ["reads /srv/a"]),
        ("filesystem: {read: [/srv/a]}", "method: docker\nfilesystem: {read: [/, /srv]}", []),
        ("filesystem: {write: ['...', ~/notes]}", "method: docker", ["writes ~/notes"]),
        ("extends: [default, own-home]", "method: docker", []),
        ("filesystem: {read: ['...', ~/notes]}", "methods: [docker, bwrap]", []),
        ("filesystem: {read: ['...', ~/notes]}\nmethod: docker", "", []),
        ("filesystem: {unprotect: [{path: ~/.ssh, reason: x}]}", "method: docker", ["reads ~/.ssh"]),
    ],
)
def test_the_users_images_show_no_file_of_the_host(project: str, user: str, said: list[str]) -> None:
    """In an image's root, the `/` that `default` grants shows no file of the host; a listed path does."""
    assert _found(project, user=user) == said
    assert _found(project, floor=user) == said
    assert _found("", user=user) == []


def test_another_method_than_the_users_images_shows_the_whole_host() -> None:
    found = _found("method: bwrap", user="method: docker")
    assert found[0] == "uses a method that your own policy does not name: bwrap"
    assert "reads /" in found


def test_every_field_that_the_user_can_restrict_is_compared() -> None:
    assert {field for field, *_ in STRICTER} | NEED_NO_APPROVAL == FIELDS.keys()


def test_limits_are_not_lifted() -> None:
    user = "resources: {pids: 100, memory: 1GiB, time: 2s, files: 64}"
    assert _found("resources: {pids: 50, files: 64, time: 1s}", user=user) == []
    raised = "resources: {pids: 4096, files: 100000, time: 30m, memory: 2GiB}"
    assert {each.partition(" to ")[0] for each in _found(raised, user=user)} == {
        f"raises the limit of {name}" for name in ("pids", "files", "time", "memory")
    }
    assert _found("resources: {pids: unlimited}") == ["has no limit of pids"]
    assert _found("resources: {pids: 99999999}") == ["raises the limit of pids to 99999999"]
    assert _found("resources: {pids: unlimited}", user="resources: {pids: unlimited}") == []


def test_what_the_command_line_says_is_left_out_but_for_its_presets() -> None:
    assert _found("network: {mode: host}", run="network: {mode: none}") == ["uses the host's network"]
    assert _found("", run="network: {mode: host}") == []
    assert "reads ~/.ssh" in _found("filesystem: {read: [/]}", run="extends: []")


def test_another_filter_is_another_thing() -> None:
    other = replace(FACTS, texts={"/etc/filter.json": "{ }"})
    policy = "process: {seccomp: /etc/filter.json}"
    assert _found(policy) != _found(policy, facts=other)


SECRETS = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GITLAB_PAT",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "STRIPE_KEY",
    "CLIENT_SECRET",
    "DB_PASSWORD",
    "MYSQL_PWD",
    "PGPASSWORD",
    "PGPASS",
    "DB_PASS",
    "SLACK_WEBHOOK",
    "SLACK_WEBHOOK_URL",
    "CI_JOB_JWT",
    "CI_JOB_JWT_V2",
    "DATABASE_URL",
    "MONGODB_URI",
    "BEARER",
    "HTTP_BEARER",
    "WALLET_MNEMONIC",
    "NPM_TOKEN",
    "npm_config__auth",
    "SENTRY_DSN",
    "HTTPS_PROXY",
    "https_proxy",
    "SSH_AUTH_SOCK",
    "VAULT_TOKEN",
    "SIGNING_CERT",
    "COOKIE",
    "GPG_PASSPHRASE",
    "OP_SESSION_my",
    "BW_SESSION",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "DOCKER_AUTH_CONFIG",
    "KUBECONFIG",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "BUNDLE_GEMS__EXAMPLE__COM",
    "AUTHORIZATION",
    "STRIPE_SK",
    "AUTH",
    "CREDS",
    "OTP",
    "PIN",
    "SEED",
    "PASS_FILE",
    "KEY_FILE",
    "PAT",
    "URL",
    "GOAUTH",
    "GOPROXY",
    "CARGO_REGISTRIES_OURS_INDEX",
    "RESTIC_REPOSITORY",
]
PLAIN = [
    "TERM",
    "LANG",
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "TZ",
    "EDITOR",
    "PAGER",
    "GOPATH",
    "CARGO_HOME",
    "CI",
    "GITHUB_SHA",
    "GIT_AUTHOR_NAME",
    "PWD",
    "MONKEYS_X",
]


@pytest.mark.parametrize("name", SECRETS)
def test_names_of_secrets(name: str) -> None:
    assert why_secret(name)


@pytest.mark.parametrize("name", PLAIN)
def test_names_of_others(name: str) -> None:
    assert not why_secret(name)


PATHS = [
    "/",
    "~",
    "~/.ssh",
    "~/.ssh/id",
    "~/alias/id",
    "$PROJECT",
    "$PROJECT/.git/hooks",
    "/run",
    "/tmp",
    "/etc/shadow",
    "/srv/a",
]


@given(
    st.lists(
        st.tuples(st.sampled_from(["read", "write", "readonly", "deny"]), st.sampled_from(PATHS)), max_size=5
    ),
    st.booleans(),
)
@settings(max_examples=examples(150))
def test_nothing_is_overlooked(entries: list[tuple[str, str]], bare: bool) -> None:
    """Each path that the policy opens and the preset doesn't is reported, or a directory above it is."""
    lists = {
        kind: [path for each, path in entries if each == kind]
        for kind in ("read", "write", "readonly", "deny")
    }
    lists["write"] = [path for path in lists["write"] if path not in ("/", "/tmp")]
    text = "".join(
        f"  {kind}: [{', '.join(map(repr, paths))}]\n"
        for kind, paths in lists.items()
        if paths or kind == "read"
    )
    policy = Policy.from_text("extends: []\n" * bare + f"filesystem:\n{text}")
    try:
        resolved = without_command_line(policy).resolve(FACTS)
    except DocumentError:
        reject()  # skip an impossible policy
    default = without_project(policy).resolve(FACTS)
    found = loosenings(resolved, default, remote=(), image_root=frozenset())
    told = {
        name: [expand_path(each.subject, FACTS.variables) for each in found if each.what in verbs]
        for name, verbs in (("shows_host", ("reads", "writes")), ("changes_host", ("writes",)))
    }
    for path in (
        "/home/u/.ssh",
        "/home/u/.ssh/id",
        "/home/u/.aws/x",
        "/home/u/p/.git/hooks/x",
        "/run/x",
        "/tmp/x",
        "/etc/shadow",
        "/srv/a/b",
        "/home/u/x",
    ):
        for name in ("shows_host", "changes_host"):
            if getattr(resolved.filesystem.tree, name)(path) and not getattr(default.filesystem.tree, name)(
                path
            ):
                assert any(is_inside(path, each) for each in told[name]), (path, name)
