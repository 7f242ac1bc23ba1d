"""The table of commands: parsing, help, completion, Invoke's tasks and docs/commands.md come from it.

It holds data only, so that `sandwright --help` and `sandwright run` start at once. `functions` says which
function carries a command out.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = ("every day", "images", "release", "profiles", "maintenance")
"""The headings of `sandwright --help`, in order."""


class Option:
    """An option of a command, or one of its positional arguments.

    `metavar` names the value; an option without one is a flag. `repeatable` options may be given several
    times, and a repeatable positional argument takes all words that are left. A flag with `negatable` is on
    by default, and `--no-NAME` turns it off. `choices` are the only values that are accepted. `offered` are
    values that completion offers beside others that exist. `more` lets further values follow the first one
    without the option's name: words that begin with `/`, or words that hold `=`.
    """

    __slots__ = (
        *("choices", "help", "metavar", "more", "name"),
        *("negatable", "offered", "repeatable", "required", "short"),
    )

    def __init__(
        self,
        name: str,
        metavar: str,
        help: str,  # noqa: A002 - what it is
        *,
        repeatable: bool = False,
        short: str = "",
        negatable: bool = False,
        required: bool = False,
        choices: tuple[str, ...] = (),
        offered: str = "",
        more: str = "",
    ) -> None:
        self.name = name
        self.metavar = metavar
        self.help = help
        self.repeatable = repeatable
        self.short = short
        self.negatable = negatable
        self.required = required
        self.choices = choices
        self.offered = offered
        self.more = more

    @property
    def flag(self) -> str:
        """The option as a command line spells it."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def spelled(self) -> str:
        """The same with the name of its value: `--policy FILE`, `--[no-]smoke`."""
        flag = f"--[no-]{self.name}" if self.negatable else self.flag
        return f"{flag} {self.metavar}".rstrip()

    @property
    def keyword(self) -> str:
        """The parameter of the command's function that it fills."""
        return self.name.replace("-", "_")

    @property
    def about(self) -> str:
        """Its help, with whether it may be repeated."""
        return self.help + "; repeatable" * (self.repeatable and bool(self.metavar))

    def values(self) -> tuple[str, ...]:
        """What completion offers as a value; nothing where that is files, or anything."""
        if self.offered == "method":
            from sandwright.policy.names import METHODS  # noqa: PLC0415 - most commands need none

            return METHODS
        return self.choices


class Command:
    """A command: `sandwright NAME`, and `invoke NAME` in a checkout.

    `details` are sentences that its help has below the first line. `takes_command` says that words behind
    `--` are a command for it to run, or to look at.
    """

    __slots__ = ("details", "group", "help", "name", "options", "positional", "takes_command")

    def __init__(
        self,
        name: str,
        group: str,
        help: str,  # noqa: A002 - what it is
        *,
        positional: tuple[Option, ...] = (),
        options: tuple[Option, ...] = (),
        details: str = "",
        takes_command: bool = False,
    ) -> None:
        self.name = name
        self.group = group
        self.help = help
        self.positional = positional
        self.options = options
        self.details = details
        self.takes_command = takes_command

    @property
    def arguments(self) -> tuple[Option, ...]:
        """Its positional arguments, each of which may be written as an option too, and its options."""
        return (*self.positional, *self.options)

    def usage(self) -> str:
        """How it is written: `sandwright NAME [OPTIONS] WORDS`."""
        words = [_word(each) for each in self.positional] + ["[-- COMMAND ...]"] * self.takes_command
        return " ".join(["sandwright", self.name, *["[OPTIONS]"] * bool(self.options), *words])


def _word(argument: Option) -> str:
    text = argument.metavar + " ..." * argument.repeatable
    return text if argument.required else f"[{text}]"


def command_of(name: str) -> Command | None:
    """The command of a name."""
    return next((each for each in COMMANDS if each.name == name), None)


def grouped() -> Iterator[tuple[str, list[Command]]]:
    """The commands of each group, in the order of the table."""
    for group in GROUPS:
        yield group, [each for each in COMMANDS if each.group == group]


_EVERY_DAY, _IMAGES, _RELEASE, _PROFILES, _MAINTENANCE = GROUPS

POLICY = Option("policy", "FILE", "the project's policy (default: sandbox.yaml)", short="p")
_SET = Option(
    "set", "FIELD=VALUE", "a setting of this run, such as network.mode=none", repeatable=True, short="s"
)
_TRUST = Option("trust-policy", "", "accept what the policy loosens of the preset `default`, this once")
_JSON = Option("json", "", "answer as one JSON object")
_YES = Option("yes", "", "do it, instead of only showing what would be done")
_FACTS = Option(
    "facts", "FILE", "use the host that this JSON file describes (`sandwright facts`), not this one"
)
_METHODS_REQUIRED = Option(
    "require", "METHODS", "methods, M[,M...], of which a skip is a failure", offered="method"
)

_OUTPUT = Option("output", "DIR", "directory for everything that is made (default: build)")
_BUILT = Option("output", "DIR", "directory that build-images wrote to (default: build)")
_PLATFORM = Option("platform", "PLATFORM", "linux/amd64 or linux/arm64 (default: this machine's)")
_DEFINITIONS = Option("images", "DIR", "directory of image definitions (default: those that ship)")
_MIRROR = Option(
    "mirror", "ADDRESS", "package mirror: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (default: apt's)"
)
_STRICT = Option(
    "strict", "", "fail when the registry of a base can't be reached, instead of leaving the image out"
)
_REF = Option("ref", "REF", "which of the image's references, where it has several")
_NAMES = Option("name", "NAME", "an image (default: all)", repeatable=True)
_IMAGE = Option(
    "image",
    "IMAGE",
    "name of a built image, or path of an OCI layout, OCI archive or Docker archive",
    required=True,
)
_BUILT_NAME = Option("name", "NAME", "a built image", required=True)
_REFERENCE = Option(
    "reference", "REFERENCE", "the image: HOST/REPOSITORY:TAG or HOST/REPOSITORY@DIGEST", required=True
)
_REGISTRY = (
    Option(
        "insecure", "HOST", "a registry, HOST[:PORT], to speak to without TLS if need be", repeatable=True
    ),
    Option("authorities", "FILE", "certificates to trust in place of the machine's"),
    Option(
        "logins", "FILE", "logins, as docker and podman write them (default: theirs); 'none' for no login"
    ),
)
_SIGSTORE = Option("trust", "FILE", "Sigstore's trust configuration in JSON (default: the public services)")

COMMANDS = (
    Command(
        "init",
        _EVERY_DAY,
        "Propose a sandbox.yaml for a project, with a comment for each choice.",
        options=(
            Option("directory", "DIR", "the project's directory (default: this one)"),
            Option(
                "method",
                "METHOD",
                "method of the policy (default: the first that works here)",
                offered="method",
            ),
            Option(
                "agent",
                "AGENT",
                "coding agent that works in the project: its preset is the policy's base",
                choices=("claude", "codex", "gemini", "aider", "opencode"),
            ),
            Option("yes", "", "write it without asking"),
        ),
        details="Shows the policy, and writes it after a yes; never over an existing one. Exits with 3 when"
        " it wrote nothing: the answer was no, or there was no terminal to ask on.",
    ),
    Command(
        "run",
        _EVERY_DAY,
        "Run a command in the sandbox of a policy; exits as the command does.",
        options=(
            POLICY,
            Option(
                "method",
                "METHOD",
                "method of this run, in place of the policy's",
                short="m",
                offered="method",
            ),
            Option(
                "preset",
                "PRESET",
                "a preset above the policy, such as agent-claude; then no policy has to be there",
                repeatable=True,
            ),
            Option(
                "outer",
                "ENGINE",
                "engine whose container gVisor runs in: docker or podman (as --set outer=ENGINE)",
            ),
            _SET,
            Option("time", "TIME", "time limit: 90, 30m (as --set resources.time=TIME)", short="t"),
            Option(
                "cidfile",
                "FILE",
                "write the container's id (without an engine, the session's) to this new file",
            ),
            Option(
                "telemetry",
                "FILE",
                "append a line about the session to this file (default: $SANDWRIGHT_TELEMETRY)",
            ),
            Option(
                "denials",
                "FILE",
                "append what was refused to this file, a line of JSON for each kind of refusal",
            ),
            Option("quiet", "", "don't say on standard error what was refused"),
            Option(
                "audit", "FILE", "append start, refusals, calls and end to this audit log, out of its reach"
            ),
            _TRUST,
        ),
        details="Exits with 125 when it ran nothing, with the reason on standard error; with 124 when the "
        "time was up.",
        takes_command=True,
    ),
    Command(
        "audit",
        _EVERY_DAY,
        "Check an audit log: whether a line was changed, moved, removed or cut off.",
        positional=(Option("file", "FILE", "the file that `run --audit` wrote", required=True),),
        options=(
            Option("head", "DIGEST", "what a run said at its end: some line must have it"),
            _JSON,
        ),
        details="Exits with 8 when something is wrong, and names the line.",
    ),
    Command(
        "verify",
        _EVERY_DAY,
        "Prove a policy: attempt in a real sandbox what it denies and what it allows.",
        options=(
            POLICY,
            Option(
                "method",
                "METHODS",
                "methods to verify, M[,M...], or all (default: the policy's)",
                offered="method",
            ),
            Option(
                "json",
                "FILE",
                "write the outcomes to it: {probe, method, verdict, expected, observed, evidence}, …",
            ),
            Option("junit", "FILE", "write them to it as JUnit XML"),
            Option("html", "FILE", "write a page with all evidence to it"),
            _METHODS_REQUIRED,
            Option("work", "", "also do what people do in projects, with the programs that are installed"),
            Option(
                "subject",
                "COMMAND",
                "prove this command instead, which runs the words behind it in a sandbox",
            ),
            Option("promises", "FILE", "what it promises: a file, or the name of a subject that ships"),
            _SET,
            _TRUST,
        ),
        details="Fails when a probe has another outcome than expected, or none. Every skip gives a reason, "
        "and fails for methods that --require names.",
    ),
    Command(
        "explain",
        _EVERY_DAY,
        "Show what a policy says about a path, host or call, and what each method does.",
        positional=(
            Option(
                "question",
                "QUESTION",
                "read, write, exec, connect, listen, env or syscall",
                choices=("read", "write", "exec", "connect", "listen", "env", "syscall"),
            ),
            Option("subject", "SUBJECT", "a path, HOST:PORT or socket, port, variable, or system call"),
            Option("argument", "ARGUMENT", "arguments of a system call, decimal or 0x…", repeatable=True),
        ),
        options=(
            POLICY,
            Option("method", "METHOD", "a method to ask (default: all)", repeatable=True, offered="method"),
            Option(
                "arch",
                "ARCH",
                "an architecture to ask for, amd64 or arm64 (default: the host's)",
                repeatable=True,
            ),
            _FACTS,
            _SET,
            _JSON,
        ),
    ),
    Command(
        "diff",
        _EVERY_DAY,
        "Show what a change of a policy newly allows and denies, for each method.",
        positional=(
            Option("old", "OLD", "the policy before: a file, REVISION:FILE, or a revision", required=True),
            Option("new", "NEW", "the policy after; with --revisions absent for the work tree"),
        ),
        options=(
            Option("revisions", "", "OLD and NEW are revisions of Git, whose file --policy names"),
            POLICY,
            Option("method", "METHOD", "a method to ask (default: all)", repeatable=True, offered="method"),
            _SET,
            Option("prove", "", "attempt each change in a sandbox, under the old policy and the new one"),
            Option("json", "FILE", "write every change to it as JSON"),
            Option("markdown", "FILE", "write a comment for a pull request to it"),
            Option("sarif", "FILE", "write the changes to it as SARIF 2.1.0"),
        ),
        details="Exits with 14 when the new policy allows more, with 12 when a sandbox did otherwise than "
        "was said.",
    ),
    Command(
        "doctor",
        _EVERY_DAY,
        "Start a sandbox of each method, to show which work here, and what the others lack.",
        options=(
            Option("method", "METHOD", "a method to try (default: all)", repeatable=True, offered="method"),
            Option("fresh", "", "start each sandbox anew, even if nothing has changed since the last time"),
            _JSON,
        ),
    ),
    Command(
        "status",
        _EVERY_DAY,
        "Show this user's running sessions, and what each enforces.",
        options=(_JSON,),
    ),
    Command(
        "cleanup",
        _EVERY_DAY,
        "Remove what killed sessions left behind; never what runs, or isn't ours.",
        options=(
            Option("caches", "", "remove the caches that projects keep (`cache` in a policy), too"),
            Option("dry-run", "", "only show what would be removed"),
            _JSON,
        ),
    ),
    Command(
        "setup",
        _IMAGES,
        "Install what comes from the distribution, after listing it; needs root or sudo.",
        options=(
            Option("group", "GROUP", "build, smoke or test (default: build and smoke)", repeatable=True),
            Option("dry-run", "", "only show what would be done"),
        ),
    ),
    Command(
        "lock-images",
        _IMAGES,
        "Resolve the images' packages with apt, and their bases; write the lock files.",
        positional=(_NAMES,),
        options=(
            _DEFINITIONS,
            _MIRROR,
            Option("check", "", "change nothing; fail when a lock is missing or does not fit its definition"),
            _STRICT,
            *_REGISTRY,
        ),
    ),
    Command(
        "lock-diff",
        _IMAGES,
        "Print what the locks of images change, package by package, in Markdown.",
        positional=(
            Option(
                "before", "BEFORE", "the former directory of images, as in another checkout", required=True
            ),
        ),
        options=(Option("images", "DIR", "the present directory of images (default: images)"),),
    ),
    Command(
        "build-images",
        _IMAGES,
        "Build images for all platforms, and smoke-test them under every runtime.",
        positional=(_NAMES,),
        options=(
            Option("platform", "PLATFORM", "linux/amd64 or linux/arm64 (default: both)", repeatable=True),
            _DEFINITIONS,
            _OUTPUT,
            _MIRROR,
            Option("frozen", "", "fail, instead of locking again, when a lock is stale or a package is gone"),
            Option("verify", "", "compare every existing blob with its digest"),
            Option("smoke", "", "smoke-test every image under every runtime", negatable=True),
            Option("runtime", "RUNTIME", "a runtime to start images under (default: all)", repeatable=True),
            Option("require", "RUNTIME", "a runtime that must be there", repeatable=True),
            Option(
                "again",
                "",
                "repeat smoke tests that passed and have not changed; with --engine: without its cache",
            ),
            _STRICT,
            Option("dry-run", "", "only show what would be built, and why"),
            Option(
                "engine",
                "ENGINE",
                "docker, podman or buildah: build there from Dockerfiles, by default for this platform alone",
                choices=("docker", "podman", "buildah"),
            ),
            Option(
                "builder",
                "IMAGE",
                "with --engine: image for the first stages, pinned as name@sha256:… (default: ours)",
            ),
            Option("compare", "", "with --engine: compare every file with the same image built without one"),
            *_REGISTRY,
        ),
    ),
    Command(
        "export-image",
        _IMAGES,
        "Write a built image as one archive that `docker load` and `podman load` take.",
        positional=(_BUILT_NAME,),
        options=(
            Option("to", "FILE", "file to write (default: NAME-ARCHITECTURE.tar)"),
            _PLATFORM,
            Option(
                "reference",
                "REFERENCE",
                "the image's name once it is loaded (default: sandwright/NAME:latest)",
            ),
            Option(
                "output",
                "DIR",
                "directory that build-images wrote to (default: $SANDWRIGHT_BUILD, else build)",
            ),
        ),
    ),
    Command(
        "dockerfile",
        _IMAGES,
        "Render the Dockerfile of an image; with --to, everything that it needs for a build.",
        positional=(Option("name", "NAME", "the image", required=True),),
        options=(
            _PLATFORM,
            Option(
                "to",
                "DIR",
                "directory for the whole context with packages (default: print the Dockerfile alone)",
            ),
            _DEFINITIONS,
            Option("builder", "IMAGE", "image for the first stages, pinned as name@sha256:… (default: ours)"),
            _MIRROR,
            Option("frozen", "", "fail, instead of locking again, when a lock is stale"),
        ),
    ),
    Command(
        "push-image",
        _IMAGES,
        "Push an image by digest, read it back, compare it, and tag it last.",
        positional=(_IMAGE, Option("reference", "REFERENCE", "where to: HOST/REPOSITORY:TAG", required=True)),
        options=(
            Option("tag", "TAG", "one more tag", repeatable=True),
            Option(
                "mount-from",
                "REPOSITORY",
                "a repository of the same registry that has layers of it",
                repeatable=True,
            ),
            Option(
                "ref", "REF", "which of the image's references, where it has several (default: all platforms)"
            ),
            _BUILT,
            *_REGISTRY,
        ),
    ),
    Command(
        "pull-image",
        _IMAGES,
        "Pull an image into an OCI layout, and compare every part with its digest.",
        positional=(_REFERENCE,),
        options=(
            Option("to", "DIR", "directory for the OCI layout (default: OUTPUT/pulled/REPOSITORY)"),
            Option("platform", "PLATFORM", "a platform, as linux/amd64 (default: all)", repeatable=True),
            _OUTPUT,
            *_REGISTRY,
        ),
    ),
    Command(
        "check-image",
        _IMAGES,
        "Audit an image: documents, layers, files, configuration, secrets, size.",
        positional=(_IMAGE,),
        options=(
            Option(
                "platform",
                "PLATFORM",
                "linux/amd64 or linux/arm64 (default: all of an image of ours, else this machine's)",
            ),
            _REF,
            _BUILT,
            Option("budget", "SIZE", "limit of its packed layers, such as 80MB"),
            Option(
                "accept",
                "RULE=REASON",
                "accept a finding: RULE=REASON or RULE:PATTERN=REASON",
                repeatable=True,
            ),
            Option("structure", "FILE", "a file of container-structure-test", repeatable=True),
            Option(
                "runtime",
                "RUNTIMES",
                "runtimes to run its commands under, R[,R...] (default: all that work here)",
            ),
            Option("json", "FILE", "write the findings to it"),
            Option("sarif", "FILE", "write them to it as SARIF 2.1.0"),
            Option("junit", "FILE", "write them to it as JUnit XML"),
        ),
        details="Fails on an error that --accept does not name.",
    ),
    Command(
        "bundle",
        _IMAGES,
        "Make an OCI runtime bundle of an image; a COMMAND replaces the image's own.",
        positional=(_IMAGE,),
        options=(
            _PLATFORM,
            _REF,
            Option("bundle", "DIR", "directory for the bundle (default: OUTPUT/bundles/NAME-ARCHITECTURE)"),
            _OUTPUT,
            Option("minimal", "PROGRAM", "keep only what these programs need", repeatable=True, more="/"),
            Option(
                "keep",
                "PATTERN",
                "with --minimal: a path or pattern to keep as well",
                repeatable=True,
                more="/",
            ),
            Option(
                "drop", "PATTERN", "with --minimal: a path or pattern not to keep", repeatable=True, more="/"
            ),
            Option(
                "trace",
                "COMMAND",
                "with --minimal: a command line to run in the full root, to keep what it opens",
                repeatable=True,
            ),
            Option(
                "dependencies",
                "",
                "with --minimal: keep the data of packages that the programs' packages depend on",
            ),
            Option("writable", "", "give the bundle a writable root of its own"),
            Option(
                "init",
                "",
                "give it the capabilities by which a first process that starts as root drops to a user",
            ),
        ),
        takes_command=True,
    ),
    Command(
        "prove-mapping",
        _IMAGES,
        "Prove which user an image runs as under every runtime, and who owns new files.",
        positional=(
            Option(
                "image",
                "IMAGE",
                "an image with `config.init`, by name, or path of its OCI layout",
                required=True,
            ),
        ),
        options=(
            Option("runtime", "RUNTIMES", "runtimes, R[,R...] (default: runc, runsc, docker and podman)"),
            _BUILT,
        ),
        details="For images with `config.init`. Needs root. Fails when a start has another outcome than "
        "expected.",
    ),
    Command(
        "sbom",
        _RELEASE,
        "Write the SBOM of a built image: every package, and every file.",
        positional=(_BUILT_NAME,),
        options=(
            Option(
                "format", "FORMAT", "cyclonedx or spdx (default: cyclonedx)", choices=("cyclonedx", "spdx")
            ),
            _PLATFORM,
            Option(
                "to",
                "FILE",
                "file to write, or to check; '-' for standard output (default: in OUTPUT/release/NAME)",
            ),
            Option(
                "check", "", "change nothing; compare the existing SBOM with the built image, file for file"
            ),
            _DEFINITIONS,
            _OUTPUT,
            _MIRROR,
        ),
    ),
    Command(
        "prove-image",
        _RELEASE,
        "Prove sandboxes on a built image, and keep the matrix as evidence about its digest.",
        positional=(_BUILT_NAME,),
        options=(
            Option(
                "method",
                "METHODS",
                "methods that run on the image's own root: oci, gvisor, or both (default: oci)",
            ),
            Option(
                "policy",
                "FILE",
                "a policy to prove on it (default: one with a writable project, and no network)",
            ),
            _OUTPUT,
        ),
    ),
    Command(
        "publish",
        _RELEASE,
        "Publish built images with SBOM, provenance, evidence and signature.",
        positional=(
            Option(
                "image",
                "IMAGE",
                "a built image; the last word is HOST/PREFIX, unless --to names it",
                repeatable=True,
            ),
        ),
        options=(
            Option("to", "HOST/PREFIX", "where to: each image gets its name below it"),
            Option(
                "key",
                "KEY",
                "private key: a PEM file (password in SANDWRIGHT_KEY_PASSWORD), or a key service's URI",
            ),
            Option("public-key", "FILE", "the key's public half or certificate; a key service needs it"),
            Option(
                "keyless",
                "",
                "sign by an identity, with a short-lived certificate and a public log, without a key",
            ),
            Option("token", "FILE", "the identity's token (default: the CI system's)"),
            _SIGSTORE,
            Option("tag", "TAG", "a tag (default: latest)", repeatable=True),
            Option(
                "require",
                "RUNTIME",
                "a runtime under which its smoke tests must have passed",
                repeatable=True,
            ),
            Option(
                "matrix",
                "METHOD",
                "a method by which prove-image must have proved it (default: any; none: no proof, for an "
                "image that no sandbox runs on)",
                repeatable=True,
            ),
            Option("builder", "URI", "who builds, for the provenance (default: urn:sandwright:builder)"),
            Option("dry-run", "", "only show what would be done"),
            _DEFINITIONS,
            _OUTPUT,
            _MIRROR,
            *_REGISTRY,
        ),
        details="Moves tags last. Sends nothing of an image whose smoke tests or matrix were not green for "
        "its very digest.",
    ),
    Command(
        "verify-image",
        _RELEASE,
        "Check a published image: signature, provenance, SBOM, evidence, every byte.",
        positional=(_REFERENCE,),
        options=(
            Option("key", "FILE", "public key, or certificate, in PEM"),
            Option("identity", "WHO", "who must have signed without a key: an address, or a workflow's URI"),
            Option("issuer", "URL", "who vouched for the identity: the URL of its login"),
            _SIGSTORE,
            Option(
                "name", "NAME", "the image's name in its signature (default: the last part of the repository)"
            ),
            Option("rebuild", "", "make it again from its published sources, and compare"),
            Option("platform", "PLATFORM", "a platform to make again (default: all)", repeatable=True),
            _MIRROR,
            *_REGISTRY,
        ),
    ),
    Command(
        "render",
        _PROFILES,
        "Render the artifacts of a policy, with a manifest of their digests.",
        options=(
            POLICY,
            Option(
                "method",
                "METHOD",
                "a method to render (default: the policy's)",
                repeatable=True,
                offered="method",
            ),
            Option("out", "DIR", "directory; each method has its own below it (default: .sandbox)"),
            _FACTS,
            _SET,
            Option("check", "", "write nothing; fail when the files differ from what would be rendered"),
            Option("diff", "", "write nothing; show what would change"),
        ),
    ),
    Command(
        "lint",
        _PROFILES,
        "Show what is likely wrong in a profile or policy; fail on an error.",
        positional=(
            Option(
                "file",
                "FILE",
                "a Seatbelt profile (.sb), a seccomp profile (.json) or a policy (.yaml)",
                required=True,
            ),
        ),
        options=(_FACTS,),
    ),
    Command(
        "facts",
        _PROFILES,
        "Print a policy's facts about this host as JSON, to render for it elsewhere.",
        options=(POLICY, _SET),
    ),
    Command(
        "schema",
        _PROFILES,
        "Print the JSON Schema of a document, for editors.",
        positional=(
            Option("document", "DOCUMENT", "policy or image", required=True, choices=("policy", "image")),
        ),
    ),
    Command(
        "sbpl-eval",
        _PROFILES,
        "Show whether a Seatbelt profile allows an operation, and which rule decides.",
        positional=(
            Option("profile", "PROFILE", "the Seatbelt profile"),
            Option("operation", "OPERATION", "the operation, such as file-read-data"),
        ),
        options=(
            Option(
                "resource",
                "KEY=VALUE",
                "the operation's object: path=/etc/hosts, remote=tcp:localhost:80, …",
                repeatable=True,
                more="=",
            ),
            Option("D", "KEY=VALUE", "a parameter of the profile", repeatable=True, more="="),
            Option("symlink", "FROM=TO", "a symbolic link of the host", repeatable=True, more="="),
            Option("include", "DIR", "a directory with profiles to import, as a Mac's", repeatable=True),
            Option(
                "fragment",
                "",
                "take it as part of a profile: assume (version 1) and (deny default) before it",
            ),
            Option(
                "batch",
                "FILE",
                "questions as JSON lines: a file, or - for standard input; in place of profile and operation",
            ),
            _JSON,
        ),
    ),
    Command(
        "seccomp-eval",
        _PROFILES,
        "Show what a seccomp profile does with a system call, and by which rule.",
        positional=(
            Option("profile", "PROFILE", "the profile, in the format of Docker, Podman or OCI"),
            Option("syscall", "SYSCALL", "the system call, by name or number"),
            Option("argument", "ARGUMENT", "its arguments in order, decimal or 0x…", repeatable=True),
        ),
        options=(
            Option("arch", "ARCH", "amd64, arm64, or i386 and the like for a second ABI (default: amd64)"),
            Option("cap", "CAP_X", "a capability of the container", repeatable=True),
            _JSON,
        ),
    ),
    Command(
        "shim-check",
        _PROFILES,
        "Show the host's side of a shim's call, without running it: `shim-check -- git push`.",
        options=(POLICY, _SET),
        details="Without a call: what each shim lets through. Fails where the bridge would refuse the call,"
        " for what the policy says, a remote that it does not know, or a file that it keeps from "
        "the sandbox.",
        takes_command=True,
    ),
    Command(
        "trust",
        _MAINTENANCE,
        "Show what a policy allows beyond the preset `default`, and accept it.",
        options=(
            POLICY,
            Option("yes", "", "accept without asking"),
            Option("forget", "", "accept it no longer"),
        ),
        details="Asks on a terminal, again whenever the policy says or allows something else.",
    ),
    Command(
        "account-setup",
        _MAINTENANCE,
        "Make the account of the method `user`, and share the project with it.",
        options=(POLICY, _YES),
        details="Without --yes it only shows what it would do, and exits with 3. Needs root, or `sudo` "
        "without a password. It leaves what exists as it is. It shares everything that the policy "
        "makes writable.",
    ),
    Command(
        "account-remove",
        _MAINTENANCE,
        "Remove a project's account with its home; the project's owner gets its files.",
        options=(
            Option("project", "DIR", "the project's directory, even if it is gone (default: this one)"),
            _YES,
        ),
        details="Without --yes it only shows what it would do, and exits with 3.",
    ),
    Command(
        "bridge",
        _MAINTENANCE,
        "Run a rendered launcher, such as .sandbox/bwrap/launch, beside a bridge.",
        options=(POLICY, _SET, _TRUST),
        details="Exits as the command does. `run` does this by itself.",
        takes_command=True,
    ),
    Command(
        "prove",
        _MAINTENANCE,
        "Prove the shipped presets with every method that works here; write reports.",
        options=(
            Option(
                "preset", "PRESET", "a shipped preset (default: all but those for agents)", repeatable=True
            ),
            Option(
                "method", "METHODS", "methods to prove them with, M[,M...] (default: all)", offered="method"
            ),
            _METHODS_REQUIRED,
            Option("output", "DIR", "directory that images are built in; reports go to its directory verify"),
        ),
        details="Proves each preset in a new project with write access to itself. OUTPUT/verify/PRESET gets"
        " verify.json, junit.xml and verify.html. Fails as `verify` does.",
    ),
    Command(
        "minimise-capabilities",
        _MAINTENANCE,
        "Find the least capabilities and system calls with which gVisor works in a container.",
        options=(
            Option("engine", "ENGINE", "docker or podman (default: both)", repeatable=True),
            Option(
                "mode",
                "MODE",
                "rootful or rootless: whether runsc is root there (default: both)",
                repeatable=True,
            ),
            Option(
                "rootfs", "DIR", "an unpacked root with a shell (default: that of the image debian in build/)"
            ),
            Option("to", "FILE", "file for the measurements (default: build/outer.json)"),
        ),
        details="Starts every candidate with a time limit. The engine must have the image `gvisor`. The "
        "shipped file, oci/outer.json, stays as it is.",
    ),
    Command(
        "completion",
        _MAINTENANCE,
        "Print the completion script of a shell, with all commands and options.",
        positional=(
            Option("shell", "SHELL", "bash, zsh or fish", required=True, choices=("bash", "fish", "zsh")),
        ),
    ),
)
