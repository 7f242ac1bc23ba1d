"""The closed sets of names that a policy uses, each with its meaning."""

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
"""The method that enforces a policy."""

METHODS: tuple[Method, ...] = get_args(Method)

PathKind = Literal["deny", "readonly", "write", "read"]
"""The kinds of rules for a path, in order of precedence at the same path."""

PATH_KINDS: tuple[PathKind, ...] = get_args(PathKind)

NetworkMode = Literal["none", "proxy", "host"]
CaSource = Literal["host", "image"]
HomeMode = Literal["throwaway", "private", "host"]
TmpMode = Literal["private", "shared"]
CloudMode = Literal["none", "readonly"]
GitAccess = Literal["read", "write"]
MappingMode = Literal["auto", "off", "required"]
WorkspaceMode = Literal["live", "review"]
EngineName = Literal["docker", "podman"]
"""An engine that runs sandboxes."""

GvisorEngine = Literal["none", "docker", "podman"]

SECCOMP_PROFILES = ("strict", "default", "build")
"""The syscall profiles with a name, each looser than the one before."""

GENERAL = ("strict", "default", "build", "ci")
"""The shipped presets for work of any kind."""

KEYS = ("anthropic", "gemini", "openai")
"""The services for which a preset keeps an API key outside the sandbox."""

PRESETS = (*GENERAL, "own-home", *(f"agent-{name}" for name in AGENTS), *(f"key-{name}" for name in KEYS))
"""The shipped policies that `extends` may name."""

CACHES: Mapping[str, Mapping[str, str]] = {
    "bun": {"BUN_INSTALL_CACHE_DIR": "$CACHE/bun"},
    "bundler": {"BUNDLE_USER_HOME": "$CACHE/bundler/home", "BUNDLE_PATH": "$CACHE/bundler/gems"},
    "cargo": {"CARGO_HOME": "$CACHE/cargo"},
    "ccache": {"CCACHE_DIR": "$CACHE/ccache"},
    "composer": {"COMPOSER_HOME": "$CACHE/composer/home", "COMPOSER_CACHE_DIR": "$CACHE/composer/cache"},
    "go": {"GOPATH": "$CACHE/go", "GOCACHE": "$CACHE/go/build", "GOMODCACHE": "$CACHE/go/mod"},
    "gradle": {"GRADLE_USER_HOME": "$CACHE/gradle"},
    "maven": {
        "MAVEN_OPTS": "-Dmaven.repo.local=$CACHE/maven/repository",
        "MAVEN_USER_HOME": "$CACHE/maven",
    },
    "npm": {"npm_config_cache": "$CACHE/npm"},
    "nuget": {"DOTNET_CLI_HOME": "$CACHE/nuget/home", "NUGET_PACKAGES": "$CACHE/nuget/packages"},
    "pip": {"PIP_CACHE_DIR": "$CACHE/pip"},
    "playwright": {"PLAYWRIGHT_BROWSERS_PATH": "$CACHE/playwright"},
    "pnpm": {
        "npm_config_store_dir": "$CACHE/pnpm/store",
        "npm_config_cache_dir": "$CACHE/pnpm/cache",
        "npm_config_state_dir": "$CACHE/pnpm/state",
        "pnpm_config_store_dir": "$CACHE/pnpm/store",
        "pnpm_config_cache_dir": "$CACHE/pnpm/cache",
        "pnpm_config_state_dir": "$CACHE/pnpm/state",
    },
    "poetry": {"POETRY_CACHE_DIR": "$CACHE/poetry"},
    "pre-commit": {"PRE_COMMIT_HOME": "$CACHE/pre-commit"},
    "rustup": {"RUSTUP_HOME": "$CACHE/rustup"},
    "uv": {"UV_CACHE_DIR": "$CACHE/uv", "UV_LINK_MODE": "copy"},
    "yarn": {"YARN_CACHE_FOLDER": "$CACHE/yarn/cache", "YARN_GLOBAL_FOLDER": "$CACHE/yarn/global"},
}
"""Caches that a project may keep between runs, with the variables by which their tools find them."""

CACHE_DIRECTORIES: Mapping[str, str] = {
    "~/.cargo/registry": "cargo",
    "~/.cargo/git": "cargo",
    "~/go/pkg/mod": "go",
    "~/.cache/go-build": "go",
    "~/.cache/pip": "pip",
    "~/.cache/uv": "uv",
    "~/.npm": "npm",
    "~/.local/share/pnpm/store": "pnpm",
    "~/.m2/repository": "maven",
    "~/.gradle": "gradle",
    "~/.cache/ccache": "ccache",
    "~/.ccache": "ccache",
    "~/.cache/yarn": "yarn",
    "~/.yarn/berry": "yarn",
    "~/.bun/install/cache": "bun",
    "~/.cache/composer": "composer",
    "~/.composer": "composer",
    "~/.nuget/packages": "nuget",
    "~/.cache/pypoetry": "poetry",
    "~/.cache/pre-commit": "pre-commit",
    "~/.cache/ms-playwright": "playwright",
    "~/.bundle": "bundler",
}
"""The directories of tools' caches in a home, with the words of the policy's field `cache`."""


def cache_word(path: str, home: str) -> str:
    """The word of `cache` for the tool whose cache holds the path; "" if it is in none."""
    return next(
        (word for at, word in CACHE_DIRECTORIES.items() if f"{path}/".startswith(f"{home}{at[1:]}/")), ""
    )


GIT_GRANTS: Mapping[str, str] = {
    "worktree": "the repository of a linked work tree may be written",
    "config": "configuration of repositories may be written",
}
"""The grants that `filesystem.git` may list."""

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
"""Capability fragments of the Seatbelt profile for the key `macos`, with the access that each allows."""

FEATURES: Mapping[str, str] = {
    "filesystem.read-all": "the whole host is readable, except for denied paths",
    "filesystem.read": "only listed paths of the host are readable",
    "filesystem.write": "only listed paths of the host are writable",
    "filesystem.readonly": "paths below writable ones are read-only",
    "filesystem.deny": "paths below readable ones are unreadable",
    "filesystem.deny-inside": "paths below writable ones are unreadable",
    "filesystem.attributes": "attributes of unreadable files are hidden, of read-only files immutable",
    "filesystem.absent": "a missing path of the project that is denied or read-only cannot be created",
    "filesystem.absent-elsewhere": "the same for a path outside the project",
    "filesystem.protect": "protected names are read-only; missing ones in the project cannot be created",
    "filesystem.protect-elsewhere": "protected names below other writable paths cannot be created",
    "filesystem.links": "links that lead to a denied, read-only or protected path cannot be replaced",
    "filesystem.git-links": "links cannot be created in, or moved to, a writable Git directory",
    "filesystem.home": "a home directory of the sandbox in place of the user's",
    "filesystem.tmp-private": "an empty temporary directory for each run",
    "filesystem.tmp-shared": "the host's temporary directory",
    "network.none": "no network",
    "network.proxy": "only the proxy is reachable",
    "network.http": "the HTTPS requests to a host are restricted by method and path",
    "network.private": "listed names can resolve to private addresses, but not to this machine",
    "network.host": "the host's network",
    "network.unix-sockets": "listed Unix sockets of the host are reachable",
    "network.no-sockets": "no Unix socket of the host is reachable",
    "network.other-sockets": "unlisted Unix sockets are unreachable, although the whole host is readable",
    "network.later-sockets": "a Unix socket created later in a listed directory is unreachable",
    "network.other-later-sockets": "a Unix socket created later is unreachable, although others are listed",
    "network.abstract-sockets": "with the host's network, abstract Unix sockets are unreachable",
    "network.own-sockets": "programs can create Unix sockets",
    "network.no-own-sockets": "programs cannot create Unix sockets, except for socket pairs",
    "network.localhost": "listed ports of the host's localhost are reachable",
    "network.expose": "servers in the sandbox are published on listed ports of the host's localhost only",
    "network.ca": "the host's CA certificates are trusted",
    "process.unprivileged": "no program gains privileges",
    "process.sandbox-root": "sudo and capabilities work",
    "process.root": "started by root, root in the sandbox is root of a separate user namespace",
    "process.kernel": "paths of /proc and /sys that describe the host and other processes are unreadable",
    "process.seccomp": "system calls are filtered",
    "macos": "capability fragments of the Seatbelt profile",
    "mcp.tools": "a client of MCP calls only listed tools of the command",
    "environment.pass": "only listed variables of the host are passed",
    "environment.set": "variables have the policy's values",
    "credentials.cloud": "credentials of cloud tools are readable",
    "credentials.http": "secrets that the proxy puts into requests",
    "credentials.shims": "programs that run on the host for the sandbox",
    "user.mapping": "new files belong to the calling user",
    "resources.memory": "memory limit of all processes together",
    "resources.cpus": "CPU limit of all processes together",
    "resources.pids": "limit of the number of processes",
    "resources.files": "limit of open files per process",
    "resources.time": "limit of the wall-clock time of a run",
    "image": "the image that is run",
    "gvisor.engine": "gVisor runs in an outer container",
    "workspace": "a copy of the project is changed, until `sandwright apply`",
}
"""Features of policies that a method may not enforce, by the name in `accept_gaps` and in errors."""
