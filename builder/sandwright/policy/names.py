"""The closed sets of names that a policy uses, each with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from sandwright.policy.agents import AGENTS

Method = Literal[
    "bwrap",
    "docker",
    "podman",
    "gvisor",
    "oci",
    "seatbelt",
    "kubernetes",
    "user",
    "alcless",
    "landlock",
    "vm",
    "noop",
]
"""How a policy is enforced."""

METHODS: tuple[Method, ...] = get_args(Method)

PathKind = Literal["deny", "readonly", "write", "read"]
"""What a rule says of a path, in order of precedence at the same path."""

PATH_KINDS: tuple[PathKind, ...] = get_args(PathKind)

NetworkMode = Literal["none", "proxy", "host"]
CaSource = Literal["host", "image"]
TmpMode = Literal["private", "shared"]
CloudMode = Literal["none", "readonly"]
MappingMode = Literal["auto", "off", "required"]
EngineName = Literal["docker", "podman"]
"""An engine that runs sandboxes."""

GvisorEngine = Literal["none", "docker", "podman"]

SECCOMP_PROFILES = ("strict", "default", "build")
"""The syscall profiles with a name, each looser than the one before."""

GENERAL = ("strict", "default", "build", "ci")
"""The shipped presets for work of any kind."""

PRESETS = (*GENERAL, *(f"agent-{name}" for name in AGENTS))
"""The shipped policies that `extends` may name."""

CACHES: Mapping[str, Mapping[str, str]] = {
    "pip": {"PIP_CACHE_DIR": "$CACHE/pip"},
    "uv": {"UV_CACHE_DIR": "$CACHE/uv"},
    "npm": {"npm_config_cache": "$CACHE/npm"},
    "pnpm": {"npm_config_store_dir": "$CACHE/pnpm", "pnpm_config_store_dir": "$CACHE/pnpm"},
    "cargo": {"CARGO_HOME": "$CACHE/cargo"},
    "go": {"GOCACHE": "$CACHE/go/build", "GOMODCACHE": "$CACHE/go/mod"},
    "maven": {"MAVEN_OPTS": "-Dmaven.repo.local=$CACHE/maven"},
    "gradle": {"GRADLE_USER_HOME": "$CACHE/gradle"},
    "ccache": {"CCACHE_DIR": "$CACHE/ccache"},
}
"""Caches that a project may keep between runs, with the variables by which their tools find them."""

GIT_GRANTS: Mapping[str, str] = {
    "worktree": "the repository of a linked work tree may be written",
    "config": "configuration of repositories may be written",
}
"""What `filesystem.git` may grant."""

FRAGMENTS: Mapping[str, str] = {
    "debugger": "lldb attaches to processes of the sandbox",
    "dns": "names are resolved by the system; with a proxy this leaks them",
    "file-events": "watchers: FSEvents",
    "fonts": "system fonts",
    "go-runtime": "hardware and version sysctls that Go, Rust and Node ask for",
    "gpu": "Metal and IOSurface",
    "java": "the JVM's sysctls, its temp directory and attach sockets",
    "keychain": "the login keychain: secrets",
    "network-frameworks": "Network.framework, reachability, URLSession",
    "node": "V8 and file watchers",
    "notifications": "distributed notifications",
    "power": "sleep assertions",
    "preferences": "reading CFPreferences of any application",
    "process-list": "ps, top, pgrep: processes of others, through sysmond",
    "pty": "new pseudo-terminals",
    "python": "multiprocessing: POSIX semaphores",
    "shared-memory": "POSIX and System V shared memory",
    "signal-others": "signals to processes outside the sandbox",
    "ssh-agent": "signing with the user's SSH keys",
    "system-trust": "certificates checked by trustd: Go, curl, Swift",
    "user-lookup": "names of users and groups, through opendirectoryd",
    "xcode": "clang, swift, xcrun and their caches",
}
"""Capability fragments of the Seatbelt profile that `macos` may list, with what each opens."""

FEATURES: Mapping[str, str] = {
    "filesystem.read-all": "the whole host can be read, except denied paths",
    "filesystem.read": "listed paths of the host can be read",
    "filesystem.write": "listed paths of the host can be written",
    "filesystem.readonly": "paths inside writable ones can't be written",
    "filesystem.deny": "paths inside readable ones can't be read",
    "filesystem.deny-inside": "paths inside writable ones can't be read",
    "filesystem.attributes": "attributes of unreadable files stay unseen, of read-only ones unchanged",
    "filesystem.absent": "a denied or read-only path of the project that doesn't exist can't be created",
    "filesystem.absent-elsewhere": "the same for a path outside the project",
    "filesystem.protect": "protected names below writable paths can't be changed, nor made in the project",
    "filesystem.protect-elsewhere": "protected names can't be made below writable paths outside the project",
    "filesystem.links": "links on the way to a denied, read-only or protected path can't be replaced",
    "filesystem.git-links": "links can be neither made in a writable Git directory nor moved there",
    "filesystem.tmp-private": "an empty temporary directory for each run",
    "filesystem.tmp-shared": "the host's temporary directory",
    "network.none": "no network",
    "network.proxy": "only the proxy can be reached",
    "network.private": "names that the policy says may lead to private addresses, and never to this machine",
    "network.host": "the host's network",
    "network.unix-sockets": "listed Unix sockets can be connected to",
    "network.no-sockets": "no Unix socket of the host can be connected to",
    "network.other-sockets": "unlisted Unix sockets can't be connected to, while all the host can be read",
    "network.later-sockets": "a Unix socket that appears later in a listed directory can't be connected to",
    "network.other-later-sockets": "a later Unix socket can't be connected to, while others are listed",
    "network.abstract-sockets": "with the host's network, Unix sockets without a path can't be connected to",
    "network.own-sockets": "programs inside can have Unix sockets of their own",
    "network.no-own-sockets": "programs inside can have no Unix sockets but pairs",
    "network.localhost": "listed ports of the host's localhost can be connected to",
    "network.expose": "servers inside are reached on listed ports of the host's localhost, and only there",
    "network.ca": "the host's certificates of authorities are trusted inside",
    "process.unprivileged": "no program gains rights",
    "process.sandbox-root": "sudo and capabilities work inside",
    "process.root": "when root runs it, root inside is root of a user namespace of its own",
    "process.kernel": "paths of /proc and /sys that describe the host and other processes can't be read",
    "process.seccomp": "system calls are filtered",
    "macos": "capability fragments of the Seatbelt profile",
    "environment.pass": "only listed variables of the host are passed",
    "environment.set": "variables have given values",
    "credentials.cloud": "the cloud tools' credentials can be read",
    "credentials.shims": "programs that run on the host for the sandbox",
    "user.mapping": "new files belong to the calling user",
    "resources.memory": "memory of all processes together",
    "resources.cpus": "processors of all processes together",
    "resources.pids": "number of processes",
    "resources.files": "open files of a process",
    "resources.time": "wall-clock time of a run",
    "image": "the image that is run",
    "gvisor.engine": "gVisor runs in a container of its own",
}
"""What a policy can ask for and a method can lack, by the name that `accept_gaps` and errors use."""
