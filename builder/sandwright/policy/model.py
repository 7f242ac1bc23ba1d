"""What one layer of a policy says: the shape of `sandbox.yaml`.

Every key may be absent: then this layer says nothing of it, and what the layers below say holds. What empty
and filled mean stands at each field. Layers come together in four ways:

- one value: the later layer's.
- a list of grants: the later layer's, whole. The item `...` in it is everything the layers below grant.
- a list of restrictions: those of all layers.
- a mapping: by key, the later layer's value. null takes a key away.

So what a file grants is what stands in it, and what any file forbids stays forbidden. null stands nowhere
else. In the operator's floor, each key is also a limit: see `sandwright.policy.floor`.

The texts are checked here and kept as written; `sandwright.policy.resolve` gives them their meaning.
"""

from dataclasses import dataclass, field
from typing import Annotated

from sandwright.documents.model import ValueCheck
from sandwright.policy import field_checks
from sandwright.policy.hosts import ListedHost
from sandwright.policy.names import CaSource, CloudMode, GvisorEngine, MappingMode, NetworkMode, TmpMode

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
FeatureName = Annotated[str, ValueCheck(field_checks.feature, field_checks.FEATURE_SCHEMA)]


@dataclass(frozen=True, kw_only=True)
class UnprotectedSection:
    """A path that a layer below denies or protects, and that this policy opens nevertheless."""

    path: PathText
    """The path at which the layer below has its rule; what lies deeper keeps its rules."""

    reason: Reason
    """Why; shown in every report."""


@dataclass(frozen=True, kw_only=True)
class FilesystemSection:
    """Which paths of the host may be read and written.

    The most specific path wins; at the same path deny, then readonly, then write, then read. Paths are
    compared after links are resolved. A directory stands for all in it.
    """

    read: tuple[PathOrInherited, ...] | None = None
    """Grants: paths that may be read.

    Absent: as the layers below say; in `default` that is `/`, the whole host. Empty: only what a program
    needs to start (its loader, libraries and configuration). Filled: these paths, what a program needs to
    start, and what may be written.
    """

    write: tuple[PathOrInherited, ...] | None = None
    """Grants: paths that may be written, and read.

    Absent: as the layers below say; in `default` that is `$PROJECT`. Empty: nothing but the private temporary
    directory. Filled: these paths. `/` itself is refused.
    """

    readonly: tuple[PathText, ...] | None = None
    """Restrictions: paths that may be read and never written, also inside a writable path.

    Absent and empty: only those of the layers below. Filled: these too.
    """

    deny: tuple[PathText, ...] | None = None
    """Restrictions: paths that may neither be read nor written, of an image's files too.

    What a preset denies is the host's alone. Absent and empty: only those of the layers below; `default`
    lists where secrets are kept. Filled: these too.
    """

    protect: tuple[ProtectedName, ...] | None = None
    """Restrictions: names below each writable path that stay read-only, like `.git/hooks`.

    They grant nothing: a path that may not be read stays unreadable. A name that doesn't exist yet can't be
    made in the project. Elsewhere the method decides (`filesystem.protect-elsewhere`): where a name can be
    made, the run reports it and no further run starts until you have looked. A name in `.git` also protects
    the `.git` files of submodules and linked work trees, the files that Git's configuration includes and
    names, and the names that would make the project a bare repository. Absent and empty: only those of the
    layers below. Filled: these too.
    """

    unprotect: tuple[UnprotectedSection, ...] | None = None
    """Exceptions from `deny`, `readonly` and `protect` of the layers below, but for the managed policy's.

    Absent and empty: none but those of the layers below. Filled: these too.
    """

    git: tuple[GitGrant, ...] | None = None
    """Grants: what Git needs besides the project's files.

    `worktree`: in a linked work tree (`git worktree add`), its repository may be written, but for its
    configuration, hooks, submodules and other work trees; elsewhere it has no effect. It is refused where the
    repository doesn't lead back to the project, or isn't yours. `config`: `git config`, `git branch -u`,
    `git remote add` and `git submodule update` work, as configuration of the project's repositories may be
    written. **The host's Git runs programs that configuration names** (`core.fsmonitor`, `core.hooksPath`,
    filters, aliases, `include`): whoever is inside then chooses what runs outside, at your next `git status`.
    Absent: as the layers below say. Empty: none. Filled: these.
    """

    tmp: TmpMode | None = None
    """The temporary directory: `private`, an empty one of this run, or `shared`, the host's.

    Absent: as the layers below say; without any, `private`.
    """


@dataclass(frozen=True, kw_only=True)
class NetworkSection:
    """What may be connected to. Sockets of container engines never, whatever is listed."""

    mode: NetworkMode | None = None
    """`none`: no network. `proxy`: only what `allow` lists, through a proxy. `host`: the host's own network.

    Absent: as the layers below say; without any, `none`.
    """

    allow: tuple[HostItem, ...] | None = None
    """Grants: hosts that the proxy admits: `github.com`, `*.example.org`, `host:8443`.

    Without a port, 80 and 443; with `:*`, any. `*.example.org` is everything below example.org, itself not.
    A name that leads to an address that no public host has is refused, unless it is listed as
    `{host: mirror.example, private: true}`. This machine, its link and a cloud's metadata are refused always.
    Absent: as the layers below say. Empty: no host. Filled: these. Only `mode: proxy` uses it.
    """

    unix_sockets: tuple[PathOrInherited, ...] | None = None
    """Grants: paths of Unix sockets that may be connected to.

    Absent: as the layers below say. Empty: none. Filled: these, each path as it is, not what lies below it.
    """

    own_sockets: bool | None = None
    """Whether programs inside can have Unix sockets of their own, and connect to those of each other.

    They are streams or sequenced packets, with a path or without. The host's stay closed, wherever they are
    seen: `unix_sockets` lists those that may be connected to. With `mode: host` there are none on Linux, as
    names without a path would be the host's. Absent: as the layers below say; without any, true.
    """

    localhost: tuple[Port, ...] | None = None
    """Grants: TCP ports of the host's own localhost that may be connected to.

    A sandbox with a localhost of its own reaches them there: `127.0.0.1:5432` inside is the host's. 2375
    and 2376, container engines', are refused. Absent: as the layers below say. Empty: none. Filled: these.
    """

    expose: tuple[Port, ...] | None = None
    """Grants: TCP ports on which a server inside is reached from the host's own localhost, and nowhere else.

    With `mode: host` a server inside is one of the host's, and this has no effect. Absent: as the layers
    below say. Empty: none. Filled: these.
    """

    ca: CaSource | None = None
    """Whose certificates of authorities are trusted in an image: the `host`'s, or the `image`'s own.

    Where the root is the host's, it is the host's bundle that is seen anyway. Absent: as the layers below
    say; without any, `host`.
    """


@dataclass(frozen=True, kw_only=True)
class ProcessSection:
    """What processes may do."""

    sandbox_root: bool | None = None
    """Whether programs may gain rights: sudo, set-uid programs, capabilities.

    Absent: as the layers below say; without any, false.
    """

    seccomp: Seccomp | None = None
    """The filter of system calls: `default`, `strict`, `build` (for compilers and packagers), or a file.

    Of these profiles `build` alone lets set-user-id files be made, which outlive the sandbox.

    A file is the path of a JSON profile as Docker, Podman and the OCI runtime specification have it. What it
    allows is taken as it is, but for the host's Unix sockets; the sandbox can't write it. Calls newer than
    all that it names get ENOSYS, as with runc. A managed policy accepts no file but its own. Absent: as the
    layers below say; without any, `default`. Only `method: noop` has no filter.
    """


@dataclass(frozen=True, kw_only=True)
class EnvironmentSection:
    """The variables a program starts with. Nothing else of the host's environment reaches it."""

    pass_: tuple[VariablePattern, ...] | None = field(default=None, metadata={"key": "pass"})
    """Grants: variables taken from the host: names, or beginnings like `LC_*`.

    A secret of a shim never passes, nor a variable that makes programs load code (LD_PRELOAD, NODE_OPTIONS
    …). Absent: as the layers below say. Empty: none. Filled: these, where the host has them.
    """

    set: dict[VariableName, VariableText | None] | None = None
    """By variable: its value. Variables of places, such as `$PROJECT`, are replaced; `$$` is a dollar sign.

    A value that is set wins over one that is passed. Absent and empty: as the layers below say. null: not
    set.
    """


@dataclass(frozen=True, kw_only=True)
class ShimSection:
    """A program that runs on the host for the sandbox, with secrets the sandbox never sees."""

    secrets: Secrets = field(default_factory=dict)
    """By variable of the program on the host: `${NAME}`, the host's variable that holds the secret.

    Absent and empty: none. A policy never contains the secret itself.
    """

    allow: tuple[CommandText, ...]
    """Arguments that are allowed: `auth status` exactly; `pr *` with anything after. Empty: none.

    gh reaches the repository of the remote `origin`, and those behind `--repo` here.
    """


@dataclass(frozen=True, kw_only=True)
class CredentialsSection:
    """Access to accounts."""

    cloud: CloudMode | None = None
    """`readonly`: the cloud tools' credentials (AWS, Google, Azure) may be read, unless a file denies them.

    Absent: as the layers below say; without any, `none`.
    """

    shims: dict[ShimName, ShimSection | None] | None = None
    """By program: what its shim may do. Absent and empty: as the layers below say. null: no such shim.

    git and gh have profiles of what they may do. Any other program runs in an empty directory of its own, so
    that nothing in the project steers it. A program that runs its arguments or its input (`env`, `sudo`,
    `sh`, `python`) lets the sandbox run anything.
    """


@dataclass(frozen=True, kw_only=True)
class UserSection:
    """Who the program runs as."""

    mapping: MappingMode | None = None
    """Whether files that the program makes belong to the calling user.

    `auto`: where the method can. `required`: an error where it can't. `off`: the image's own user.
    Absent: as the layers below say; without any, `auto`.
    """


@dataclass(frozen=True, kw_only=True)
class ResourcesSection:
    """Limits for all processes of a run together. `unlimited` lifts a limit of a layer below."""

    memory: Size | None = None
    """Bytes with a unit: `2GiB`.

    Absent: as the layers below say; in `default` that is `32GiB`, at most three quarters of the machine's
    memory; without any, no limit.
    """

    cpus: Cpus | None = None
    """Processors: `2`, `0.5`. Absent: as the layers below say; without any, no limit."""

    pids: Count | None = None
    """Processes and threads.

    Absent: as the layers below say; in `default` that is 4096; without any, no limit.
    """

    files: Count | None = None
    """Open files of one process. Absent: as the layers below say; without any, the host's limit."""

    time: Duration | None = None
    """Wall-clock time of a run: `30m`. Absent: as the layers below say; without any, no limit."""


@dataclass(frozen=True, kw_only=True)
class GvisorSection:
    """Settings of the method gvisor."""

    engine: GvisorEngine | None = None
    """Where gVisor runs.

    `none`: on the host. `docker`, `podman`: in a hardened container of that engine, from the image `gvisor`,
    so that the host needs no runsc, and limits hold without its root. Absent: as the layers below say;
    without any, `none`.
    """


@dataclass(frozen=True, kw_only=True)
class AcceptedGapSection:
    """A feature that a method can't enforce, accepted."""

    feature: FeatureName
    """The feature's name, as the error of `render` gives it."""

    method: Method
    """The method that lacks it."""

    reason: Reason
    """Why that is acceptable; shown in every report."""


@dataclass(frozen=True, kw_only=True)
class PolicyFile:
    """A layer of a sandbox's policy."""

    version: Annotated[int, ValueCheck(field_checks.version)] = field(default=1, metadata={"key": "schema"})
    """The version of this format. Absent: 1."""

    method: Method | None = None
    """How the policy is enforced. Excludes `methods`.

    Absent: as the layers below say (`method` or `methods`); it is never guessed. `noop` needs a `reason`.
    """

    methods: Annotated[tuple[Method, ...], ValueCheck(field_checks.methods)] | None = None
    """Methods in order; the first that works here is taken. `noop` can't be one of them. Not empty."""

    reason: Reason | None = None
    """Why nothing is enforced; only with `method: noop`, which requires it."""

    extends: tuple[Preset, ...] | None = None
    """Presets that this policy starts from, later ones over earlier ones.

    The last layer that has this key decides. Absent in all: `[default]`. Empty: none, only what is built in.
    In the managed policy: their limits become the managed policy's.
    """

    filesystem: FilesystemSection | None = None
    """Which paths of the host may be read and written."""

    cache: tuple[CacheName, ...] | None = None
    """Grants: caches of tools that this project keeps between runs.

    Each is a directory below `$CACHE` that may be written, with the variable set by which its tool finds it.
    They are apart from the home's own caches, and no program of the host looks for anything there, so what a
    sandbox puts into one runs in sandboxes of this project alone. `sandwright cleanup --caches` removes them.
    Absent: as the layers below say. Empty: none. Filled: these.
    """

    network: NetworkSection | None = None
    """What may be connected to."""

    process: ProcessSection | None = None
    """What processes may do."""

    macos: tuple[Fragment, ...] | None = None
    """Grants: capability fragments of the Seatbelt profile, like `process-list`; for that method only.

    `mach-lookup:com.example.agent` opens one Mach service. `mach-register:com.example.app.*` lets programs
    offer services below a name, and find them (without `.*`: the one of that name); never Apple's.

    Absent: as the layers below say. Empty: none. Filled: these.
    """

    environment: EnvironmentSection | None = None
    """The variables a program starts with."""

    credentials: CredentialsSection | None = None
    """Access to accounts."""

    user: UserSection | None = None
    """Who the program runs as."""

    resources: ResourcesSection | None = None
    """Limits for all processes of a run."""

    image: ImageName | None = None
    """The image that container methods run: one of ours, or a reference.

    Absent: as the layers below say; without any, `debian`. Methods without containers don't use it.
    """

    gvisor: GvisorSection | None = None
    """Settings of the method gvisor."""

    accept_gaps: tuple[AcceptedGapSection, ...] | None = None
    """Grants: features whose lack is accepted, method by method.

    Absent: as the layers below say. Empty: none. Filled: these.
    """
