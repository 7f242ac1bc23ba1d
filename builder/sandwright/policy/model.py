"""The schema of `sandbox.yaml`: one layer of a policy.

Every key is optional. An absent key inherits its value from the layers below. Each field documents an empty
and a filled value. Layers are merged by the kind of the value:

- scalar: the last layer that sets it wins.
- list of grants: the last layer's list replaces the others; the item `...` includes the inherited list.
- list of restrictions: the lists of all layers are joined.
- mapping: merged by key, the last layer wins; null removes a key.

So a file grants only what it lists, and no layer can lift another layer's restriction. null is an error
anywhere else. In the managed policy each key is also an upper limit (`sandwright.policy.floor`).

Values are checked here and stay as written; `sandwright.policy.resolve` interprets them.
"""

from dataclasses import dataclass, field
from typing import Annotated

from sandwright.documents.model import ValueCheck
from sandwright.policy import field_checks, http_credentials, http_rules, mcp_rules
from sandwright.policy.hosts import ListedHost
from sandwright.policy.names import (
    CaSource,
    CloudMode,
    GitAccess,
    GvisorEngine,
    HomeMode,
    MappingMode,
    NetworkMode,
    TmpMode,
    WorkspaceMode,
)

Reason = Annotated[str, ValueCheck(field_checks.reason, field_checks.REASON_SCHEMA)]
Method = Annotated[str, ValueCheck(field_checks.method, field_checks.METHOD_SCHEMA, context=True)]
Preset = Annotated[str, ValueCheck(field_checks.preset, field_checks.PRESET_SCHEMA)]
PathText = Annotated[str, ValueCheck(field_checks.path, field_checks.PATH_SCHEMA)]
PathOrInherited = Annotated[str, ValueCheck(field_checks.path_or_inherited, field_checks.PATH_SCHEMA)]
ProtectedName = Annotated[str, ValueCheck(field_checks.protected_name)]
HostItem = Annotated[
    str | ListedHost, ValueCheck(field_checks.host_or_inherited, field_checks.HOST_SCHEMA, raw=True)
]
Port = Annotated[int | str, ValueCheck(field_checks.port_or_inherited, field_checks.PORT_SCHEMA)]
Seccomp = Annotated[str, ValueCheck(field_checks.seccomp)]
Fragment = Annotated[str, ValueCheck(field_checks.fragment, field_checks.FRAGMENT_SCHEMA)]
VariablePattern = Annotated[str, ValueCheck(field_checks.variable_or_inherited)]
VariableName = Annotated[str, ValueCheck(field_checks.variable)]
VariableText = Annotated[str, ValueCheck(field_checks.variable_text)]
Secrets = Annotated[dict[str, str], ValueCheck(field_checks.secrets, field_checks.SECRETS_SCHEMA, raw=True)]
CommandText = Annotated[str, ValueCheck(field_checks.command)]
ShimName = Annotated[str, ValueCheck(field_checks.program)]
Size = Annotated[str, ValueCheck(field_checks.size)]
Duration = Annotated[str, ValueCheck(field_checks.duration)]
Cpus = Annotated[float | str, ValueCheck(field_checks.cpus, field_checks.CPUS_SCHEMA)]
Count = Annotated[int | str, ValueCheck(field_checks.count, field_checks.COUNT_SCHEMA)]
ImageName = Annotated[str, ValueCheck(field_checks.image)]
CacheName = Annotated[str, ValueCheck(field_checks.cache, field_checks.CACHE_SCHEMA)]
GitGrant = Annotated[str, ValueCheck(field_checks.git, field_checks.GIT_SCHEMA)]
SigningKey = Annotated[str, ValueCheck(field_checks.signing_key, field_checks.SIGNING_SCHEMA)]
FeatureName = Annotated[str, ValueCheck(field_checks.feature, field_checks.FEATURE_SCHEMA)]
Inherited = Annotated[str, ValueCheck(field_checks.inherited, field_checks.INHERITED_SCHEMA)]
HttpHostName = Annotated[str, ValueCheck(field_checks.http_host)]
HttpMethod = Annotated[str, ValueCheck(http_rules.http_method)]
HttpPath = Annotated[str, ValueCheck(http_rules.http_path)]
GitRepository = Annotated[str, ValueCheck(http_rules.git_repository)]
ToolPattern = Annotated[str, ValueCheck(mcp_rules.tool_pattern)]
HeaderName = Annotated[str, ValueCheck(http_credentials.header_name)]
SecretSource = Annotated[str, ValueCheck(http_credentials.secret_source)]
HeaderScheme = Annotated[str, ValueCheck(http_credentials.header_scheme)]


@dataclass(frozen=True, kw_only=True)
class UnprotectedSection:
    """An exception from a restriction of a layer below."""

    path: PathText
    """The path of the rule in the layer below. Rules for paths below it stay in force."""

    reason: Reason
    """The reason for the exception; every report shows it."""


@dataclass(frozen=True, kw_only=True)
class FilesystemSection:
    """Access to the host's file system.

    The most specific path wins; at the same path, `deny` wins over `readonly`, `write` and `read`, in this
    order. Symbolic links are resolved before paths are compared. A rule for a directory applies to its
    whole tree.
    """

    read: tuple[PathOrInherited, ...] | None = None
    """Grants: readable paths.

    Absent: inherited; `default` grants `/`, the whole host. Empty: only the files that a program needs to
    start (loader, libraries, their configuration). Filled: these paths, the files that a program needs to
    start, and the writable paths.
    """

    write: tuple[PathOrInherited, ...] | None = None
    """Grants: writable paths, which are readable as well.

    Absent: inherited; `default` grants `$PROJECT`. Empty: only the private temporary directory. Filled: these
    paths. `/` is an error.
    """

    readonly: tuple[PathText, ...] | None = None
    """Restrictions: paths that are never writable, also within a writable path.

    Absent and empty: the inherited ones. Filled: these as well.
    """

    deny: tuple[PathText, ...] | None = None
    """Restrictions: paths that can be neither read nor written, on the host and in an image.

    The paths that a preset denies apply to the host only. Absent and empty: the inherited ones; `default`
    lists the usual locations of secrets. Filled: these as well.
    """

    protect: tuple[ProtectedName, ...] | None = None
    """Restrictions: names that are read-only below every writable path, such as `.git/hooks`.

    They grant no access: an unreadable path stays unreadable. A missing name cannot be created in the
    project. In other writable directories this depends on the method (`filesystem.protect-elsewhere`): if
    the name can be created, the run reports it, and the next run does not start until you have reviewed it.
    A name in `.git` also protects the `.git` files of submodules and linked worktrees, the files that Git's
    configuration includes or names, and the names that would turn the project into a bare repository. Absent
    and empty: the inherited ones. Filled: these as well.
    """

    unprotect: tuple[UnprotectedSection, ...] | None = None
    """Exceptions from `deny`, `readonly` and `protect` of the layers below, except for the managed policy.

    Absent and empty: the inherited ones. Filled: these as well.
    """

    git: tuple[GitGrant, ...] | None = None
    """Grants: access that Git needs beyond the files of the project.

    `worktree`: in a linked worktree (`git worktree add`) the repository is writable, except for its
    configuration, hooks, submodules and other worktrees; in any other project it has no effect. It is an
    error if the repository does not lead back to the project or belongs to another user. `config`: the
    configuration of the project's repositories is writable, so that `git config`, `git branch -u`,
    `git remote add` and `git submodule update` work. **Git on the host runs programs that its configuration
    names** (`core.fsmonitor`, `core.hooksPath`, filters, aliases, `include`): a program in the sandbox can
    then choose a program that your next `git status` runs outside. Absent: inherited. Empty: none. Filled:
    these.
    """

    placeholders: bool | None = None
    """Whether missing protected names of the project are occupied by empty directories during a run.

    `false`: they are not, so that scaffolding tools see the project as it is. Programs
    still cannot create these names: Landlock and the launcher refuse it. Only `bwrap` can do this, on Linux
    5.19 or newer, for a project that is not below the sandbox's private directories (`/tmp`); otherwise the
    policy is an error. Two things are weaker: if the host creates such a file during the run, programs can
    write to it for some milliseconds, and calls that create names can fail with EINTR in a program that
    handles signals without SA_RESTART. Names that `deny` and `readonly` list keep their placeholders.
    Absent: inherited; built in is `true`.
    """

    home: HomeMode | None = None
    """The home directory: `host`, the user's, `private`, one of the project, or `throwaway`, an empty one.

    With `private` and `throwaway` the user's home is not visible, except for the paths below it that the
    policy grants, such as the project. Programs can write anywhere else in it. `private` is kept below
    `~/.local/state/sandwright/homes` until `sandwright cleanup --caches`; `throwaway` is in memory, and each
    run has a new one. The preset `own-home` shows the tools that are installed in the user's home. Absent:
    inherited; built in is `host`.
    """

    tmp: TmpMode | None = None
    """The temporary directory: `private`, an empty one for this run, or `shared`, the host's.

    Absent: inherited; built in is `private`.
    """


@dataclass(frozen=True, kw_only=True)
class McpSection:
    """The requests that a client may send to a server of MCP (Model Context Protocol)."""

    tools: tuple[ToolPattern, ...]
    """Tools that may be called, and that lists of tools show: `search`, `repos_*`. Empty: none."""


@dataclass(frozen=True, kw_only=True)
class HttpRuleSection:
    """Requests that are allowed to one host, whose TLS ends in the proxy."""

    host: HttpHostName
    """The name of the host, with a port unless it is 443. Several rules for a host add up."""

    methods: tuple[HttpMethod, ...] | None = None
    """Methods: `GET`. Absent: all, and WebSockets. Empty: none."""

    paths: tuple[HttpPath, ...] | None = None
    """Patterns of paths: `/repos/acme/*`, where `*` is part of a segment, `**` any number of segments.

    Queries are not compared. Absent: all. Empty: none.
    """

    git: GitAccess | None = None
    """Git over HTTPS: `read` allows fetching, `write` also pushing. Absent: not Git.

    It needs `repos`, and excludes `methods` and `paths`.
    """

    repos: tuple[GitRepository, ...] | None = None
    """Repositories for `git`: `acme/tool`, `acme/*`. Absent without `git`. Empty: none."""

    mcp: McpSection | None = None
    """An MCP server at `paths`, without them `/mcp`: only its listed tools may be used. Absent: not MCP.

    It excludes `methods` and `git`. Other rules for the host need `paths`, and don't hold for these.
    """

    private: bool = False
    """Whether the name may resolve to a private address. Absent: it may not."""


@dataclass(frozen=True, kw_only=True)
class NetworkSection:
    """Network access. Sockets of container engines are never reachable, even if listed."""

    mode: NetworkMode | None = None
    """`none`: no network. `proxy`: only the hosts in `allow`, through a proxy. `host`: the host's network.

    Absent: inherited; built in is `none`.
    """

    allow: tuple[HostItem, ...] | None = None
    """Grants: hosts that the proxy allows: `github.com`, `*.example.org`, `host:8443`.

    Without a port, 80 and 443; with `:*`, every port. `*.example.org` matches every name below example.org,
    but not example.org. The proxy refuses a name that resolves to a private address, unless it is listed as
    `{host: mirror.example, private: true}`. It always refuses loopback and link-local addresses and cloud
    metadata services. Absent: inherited. Empty: no host. Filled: these. Only `mode: proxy` uses it.
    """

    http: tuple[HttpRuleSection | Inherited, ...] | None = None
    """Grants: hosts whose HTTPS requests the proxy reads, and the requests that it lets through.

    A host that is listed here is reached by these requests only; hosts in `allow` stay tunnels. In the
    sandbox, the host has a certificate of an authority that is made for each run. Absent: inherited. Empty:
    none. Filled: these. Only `mode: proxy` uses it.
    """

    unix_sockets: tuple[PathOrInherited, ...] | None = None
    """Grants: paths of Unix sockets of the host to which programs can connect.

    Absent: inherited. Empty: none. Filled: these sockets; a directory does not include the sockets in it.
    """

    own_sockets: bool | None = None
    """Whether programs in the sandbox can create Unix sockets and connect to each other's.

    This covers stream and seqpacket sockets, with a path or abstract. Sockets of the host stay unreachable,
    even if their path is visible, unless `unix_sockets` lists them. On Linux, `mode: host` allows none,
    because abstract names would be those of the host. Absent: inherited; built in is true.
    """

    localhost: tuple[Port, ...] | None = None
    """Grants: TCP ports on the host's localhost to which programs can connect.

    A sandbox with its own loopback interface reaches them there: `127.0.0.1:5432` inside is the host's port.
    2375 and 2376, the ports of container engines, are an error. Absent: inherited. Empty: none. Filled:
    these.
    """

    expose: tuple[Port, ...] | None = None
    """Grants: TCP ports of servers in the sandbox that are published on the host's localhost only.

    With `mode: host` it has no effect, because the server listens on the host. Absent: inherited. Empty:
    none. Filled: these.
    """

    ca: CaSource | None = None
    """The CA certificates that programs in an image trust: those of the `host` or those of the `image`.

    Methods that show the host's root file system always use the host's. Absent: inherited; built in is
    `host`.
    """


@dataclass(frozen=True, kw_only=True)
class ProcessSection:
    """Privileges and system calls."""

    sandbox_root: bool | None = None
    """Whether programs can gain privileges: sudo, set-user-ID programs, capabilities.

    Absent: inherited; built in is false.
    """

    seccomp: Seccomp | None = None
    """The seccomp profile: `default`, `strict`, `build` (for compilers and package builds), or a file.

    Only `build` allows programs to create set-user-ID files, which outlive the sandbox.

    A file is the path of a JSON profile in the format of Docker, Podman or the OCI runtime specification. Its
    rules apply unchanged, except that sockets of the host stay unreachable. The sandbox cannot write the
    file. System calls newer than every call that it names fail with ENOSYS, as with runc. A managed policy
    accepts only its own file. Absent: inherited; built in is `default`. Only `method: noop` has no filter.
    """


@dataclass(frozen=True, kw_only=True)
class EnvironmentSection:
    """Environment variables of the program. All other variables of the host are removed."""

    pass_: tuple[VariablePattern, ...] | None = field(default=None, metadata={"key": "pass"})
    """Grants: variables passed from the host, by name or by prefix such as `LC_*`.

    Secrets of shims are never passed, nor are variables that make programs load code (LD_PRELOAD,
    NODE_OPTIONS …). Absent: inherited. Empty: none. Filled: these, if set on the host.
    """

    set: dict[VariableName, VariableText | None] | None = None
    """Variables and their values. `$PROJECT` and other path variables are expanded; `$$` is a dollar sign.

    `set` wins over `pass`. Absent and empty: inherited. null: not set.
    """


@dataclass(frozen=True, kw_only=True)
class ShimSection:
    """A program that runs on the host for the sandbox, with secrets that never enter the sandbox."""

    secrets: Secrets = field(default_factory=dict)
    """Variables of the program on the host, each with `${NAME}`, the host variable that holds the secret.

    Absent and empty: none. A policy never contains a secret.
    """

    allow: tuple[CommandText, ...]
    """Allowed arguments: `auth status` matches exactly, `pr *` also with further arguments. Empty: none.

    gh reaches the repository of the remote `origin`, and those named with `--repo` in this list.
    """


@dataclass(frozen=True, kw_only=True)
class HttpCredentialSection:
    """A secret that the proxy puts into a header of requests to one host; the sandbox never has it."""

    host: HttpHostName
    """The host, which `network.http` lists with the same port."""

    header: HeaderName
    """The header: `x-api-key`, `authorization`."""

    scheme: HeaderScheme | None = None
    """The word before the secret: `Bearer`. Absent: none.

    With `AWS4-HMAC-SHA256` the secret is a key of AWS, and requests are signed with it.
    """

    from_: SecretSource = field(metadata={"key": "from"})
    """The source of the secret on the host.

    `env:NAME` is a variable, or the source that NAME_FILE or NAME_COMMAND names; `file:PATH` a file;
    `keyring:SERVICE/ACCOUNT` an entry of the desktop's keyring; `cmd:WORDS` the output of a command, without
    a shell.
    """

    variable: VariableName | None = None
    """The variable that has a placeholder for the secret in the sandbox, in the secret's shape.

    Absent: NAME for `env:NAME`, otherwise none.
    """

    lifetime: Duration | None = None
    """The time after which the secret is read again: `10m`. Absent: a minute for files, an hour otherwise."""


@dataclass(frozen=True, kw_only=True)
class CredentialsSection:
    """Use of accounts and credentials."""

    cloud: CloudMode | None = None
    """`readonly`: credentials of cloud tools (AWS, Google, Azure) are readable, unless a file denies them.

    Absent: inherited; built in is `none`.
    """

    http: tuple[HttpCredentialSection | Inherited, ...] | None = None
    """Grants: secrets that the proxy puts into requests, after the rules of `network.http` allow them.

    Absent: inherited. Empty: none. Filled: these.
    """

    shims: dict[ShimName, ShimSection | None] | None = None
    """Shims by program. Absent and empty: inherited. null: no shim for this program.

    git and gh have built-in profiles. Every other program runs in an empty directory, so that no file of the
    project influences it. A program that executes its arguments or its input (`env`, `sudo`, `sh`,
    `python`) lets the sandbox run anything on the host.
    """

    signing: tuple[SigningKey, ...] | None = None
    """Grants: keys with which the host signs commits and tags of the project; no key is visible inside.

    `~/.ssh/id_ed25519.pub` is a public key; the ssh-agent of the host has the private one, or it is in the
    file of this name without `.pub` and has no passphrase. `SHA256:…` is a fingerprint of a key in the agent,
    `gpg:` with 40 digits that of a GnuPG key. **A program inside can have any commit or tag of the project
    signed**, by any author. Absent: inherited. Empty: none. Filled: these.
    """


@dataclass(frozen=True, kw_only=True)
class UserSection:
    """The user that the program runs as."""

    mapping: MappingMode | None = None
    """Whether files that the program creates belong to the calling user.

    `auto`: if the method supports it. `required`: an error if it does not. `off`: the user of the image.
    Absent: inherited; built in is `auto`.
    """


@dataclass(frozen=True, kw_only=True)
class ResourcesSection:
    """Limits for all processes of a run together. `unlimited` removes an inherited limit."""

    memory: Size | None = None
    """Memory with a unit: `2GiB`.

    Absent: inherited; `default` sets `32GiB`, but at most three quarters of the machine's memory. No limit is
    built in.
    """

    cpus: Cpus | None = None
    """Number of processors: `2`, `0.5`. Absent: inherited; no limit is built in."""

    pids: Count | None = None
    """Number of processes and threads.

    Absent: inherited; `default` sets 4096. No limit is built in.
    """

    files: Count | None = None
    """Open files per process. Absent: inherited; without any, the limit of the host applies."""

    time: Duration | None = None
    """Wall-clock time of a run: `30m`. Absent: inherited; no limit is built in."""


@dataclass(frozen=True, kw_only=True)
class GvisorSection:
    """Settings of the method `gvisor`."""

    engine: GvisorEngine | None = None
    """The engine that runs gVisor.

    `none`: runsc on the host. `docker`, `podman`: runsc in a hardened container of that engine, from the
    image `gvisor`. The host then needs no runsc, and resource limits work without root. Absent: inherited;
    built in is `none`.
    """


@dataclass(frozen=True, kw_only=True)
class AcceptedGapSection:
    """A feature that a method cannot enforce and that the policy accepts as missing."""

    feature: FeatureName
    """The name of the feature, from the error message of `render`."""

    method: Method
    """The method that lacks it."""

    reason: Reason
    """The reason for accepting it; every report shows it."""


@dataclass(frozen=True, kw_only=True)
class PolicyFile:
    """A layer of a sandbox's policy."""

    version: Annotated[int, ValueCheck(field_checks.version)] = field(default=1, metadata={"key": "schema"})
    """The version of this format. Absent: 1."""

    method: Method | None = None
    """The sandboxing method. Excludes `methods`.

    Absent: inherited (`method` or `methods`); there is no built-in method. `noop` requires a `reason`.
    """

    methods: Annotated[tuple[Method, ...], ValueCheck(field_checks.methods)] | None = None
    """Methods in order of preference; the first that works on this machine is used. Not empty, no `noop`."""

    reason: Reason | None = None
    """The reason for running without a sandbox; required with `method: noop`, an error otherwise."""

    extends: tuple[Preset, ...] | None = None
    """Presets on which this policy is based; later ones override earlier ones.

    The last layer that has this key decides. Absent in all layers: `[default]`. Empty: only the built-in
    values. In the managed policy, the limits of its presets become its own.
    """

    workspace: WorkspaceMode | None = None
    """Whether programs change the project (`live`) or a copy of it (`review`).

    With `review`, each run continues in the same copy, `sandwright changes` lists the changes, and
    `sandwright apply` applies them to the project. Other writable paths stay live. Missing protected names
    can be created in the copy; `apply` holds them back. Absent: inherited; built in is `live`.
    """

    filesystem: FilesystemSection | None = None
    """Access to the host's file system."""

    cache: tuple[CacheName, ...] | None = None
    """Grants: caches of tools that this project keeps between runs.

    Each is a writable directory below `$CACHE`; the variable by which the tool finds it is set. They are
    separate from the caches in the home directory, and no program on the host uses them, so files that a
    sandbox stores there only ever run in sandboxes of this project. `sandwright cleanup --caches` removes
    them. Absent: inherited. Empty: none. Filled: these.
    """

    network: NetworkSection | None = None
    """Network access."""

    process: ProcessSection | None = None
    """Privileges and system calls."""

    macos: tuple[Fragment, ...] | None = None
    """Grants: capability fragments of the Seatbelt profile, such as `process-list`; only for that method.

    `mach-lookup:com.example.agent` allows lookup of one Mach service. `mach-register:com.example.app.*` lets
    programs register and look up services below a name (without `.*`: only this name), but not below
    Apple's names.

    Absent: inherited. Empty: none. Filled: these.
    """

    mcp: McpSection | None = None
    """The command is a server of MCP that speaks over standard input and output; its `tools` are grants.

    A client outside, such as a coding agent, can call only these tools, and lists of tools show no others.
    Absent: inherited; without it in any layer the command's input and output are not read. Every command that
    is run under this policy then has to be such a server.
    """

    environment: EnvironmentSection | None = None
    """Environment variables of the program."""

    credentials: CredentialsSection | None = None
    """Use of accounts and credentials."""

    user: UserSection | None = None
    """The user that the program runs as."""

    resources: ResourcesSection | None = None
    """Limits for all processes of a run."""

    image: ImageName | None = None
    """The image for container methods: the name of a shipped image or an image reference.

    Absent: inherited; built in is `debian`. Methods without containers ignore it.
    """

    gvisor: GvisorSection | None = None
    """Settings of the method `gvisor`."""

    accept_gaps: tuple[AcceptedGapSection, ...] | None = None
    """Grants: features that the policy accepts as missing, each for one method.

    Absent: inherited. Empty: none. Filled: these.
    """
