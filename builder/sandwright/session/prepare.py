"""Prepares a sandbox: reads its policy, tries its method out, renders, and writes the render cache.

`prepare` has the steps in their order, for a `run` that found no current entry in `session.render_cache`.
Every question to the host goes through one `inputs.LiveHost`; its recording decides when the rendering is
stale.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright import process, user_dirs
from sandwright.egress.proxy_plan import ProxyPlan
from sandwright.errors import HostError, IntegrityError, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.methods.contract import Backend, Notify, quiet
from sandwright.methods.properties import Properties
from sandwright.methods.shared.shims import lists_changes
from sandwright.policy.agents import AGENTS
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.policy.installation import refuse_changeable
from sandwright.policy.layers import base_presets
from sandwright.policy.load import (
    FLOOR,
    exceptions_layer,
    given_presets,
    layers_for,
    path_grant_layer,
    read_layer,
    user_file,
)
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import ancestors
from sandwright.policy.policy_warnings import collect_warnings
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import trusted_directories
from sandwright.reading import read_start
from sandwright.render.artifact import Artifact
from sandwright.render.mounts import mount_plan
from sandwright.render.rendered import Rendered
from sandwright.resources import Room, data_path
from sandwright.session import committer, persistent, preflights, render_cache, trust
from sandwright.session.denial_sources import denial_context
from sandwright.session.loosened import loosened
from sandwright.session.render_cache import CachedSandbox, SandboxStart
from sandwright.session.render_store import store, sweep_renderings
from sandwright.session.request import RunRequest
from sandwright.session.session_record import Enforced, PostRun, SandboxRecord
from sandwright.session.writable import scan_scope
from sandwright.signalling import boot, machine

if TYPE_CHECKING:
    from sandwright.bridge.directory import Bridge
    from sandwright.session.hostprogram import HostProgram

RENDERED = ".sandbox"
MANIFEST = "manifest.json"
"""The directory beside the policy to which `sandwright render` writes."""

_COMMAND_MARK = "\0command"
_ROOMS: tuple[Room, ...] = ("oci", "seatbelt", "seccomp")


def prepare(request: RunRequest, notify: Notify = quiet) -> CachedSandbox:
    """Prepare a request's sandbox, and store it in the render cache.

    Raise SandwrightError for every obstacle: faults in the policy, a method that
    cannot enforce it or does not work here, a directory that cannot be written.
    """
    inputs = LiveHost(request.copies)
    user_dirs.private(user_dirs.cache())
    policy = load_layers(request, inputs)
    found = loosened(policy, request.policy, cwd=request.cwd, inputs=inputs)
    trust.require_approval(found, word=request.trusted)
    if persistent.make_persistent(policy, str(Path(request.policy).parent)):
        return prepare(request, notify)  # directories were made: the answers recorded so far are stale
    inside = _with_creatable(policy, request)
    resolved = resolved_here(inside, request, inputs)
    backend, notes = choose_method(resolved, inputs, proposed=not request.has_policy())
    _check_shows_copies(resolved, backend.name, request)
    agent, own_root = _agent(policy, request), registry.properties(backend.name).root == "image"
    program = _host_program(agent, resolved, inputs) if agent and own_root else None
    if program is not None:
        seen = path_grant_layer(program.paths, what=f"{agent}, which is this host's")
        resolved = resolved_here(MergedPolicy.from_layers([*inside.layers, seen]), request, inputs)
    notes += [_about_agent(agent, program, resolved.image)] if agent and own_root else []
    if agent and not registry.properties(backend.name).own_account:  # that account's home is not examined
        notes.append(committer.unknown(agent, resolved, inputs, own_root=own_root))
    unsigned = committer.unsigned(resolved, inputs, own_root=own_root)
    notes.append(unsigned)
    rendered = registry.render(resolved, backend.name)
    notes.append(_check_rendered(policy, backend, rendered.method, request, inputs))
    directory = store(rendered.artifacts)
    record = _sandbox_record(resolved, backend, rendered, directory, request=request, policy=policy)
    start = SandboxStart(
        terminal_argv=_launcher_argv(backend, directory, terminal=True),
        terminal=backend.terminal,
        proxy=_proxy_plan(resolved, backend.name, inputs),
        needs_bridge=resolved.credentials.needs_bridge and registry.properties(backend.name).shims,
        changes_platform=_changes_platform(resolved, backend.name, request),
        notes=tuple(_render_notes(notes, resolved, backend, rendered, inputs)),
        default_policy="" if request.has_policy() else _default_policy_note(policy, request, backend.name),
        loosened=found,
        retired=policy.retired(),
        argv0_override=program.words if program is not None else (),
        unsigned=unsigned,
        mcp_tools=resolved.mcp_tools if _reads_messages(backend.name) else None,
    )
    prepared = CachedSandbox(
        record=record,
        start=start,
        argv=_launcher_argv(backend, directory, terminal=False),
        environment=dict(backend.environment(resolved, inputs, notify=notify)),
    )
    ask_program(inputs)
    trusted = trust.is_approved(found, inputs)
    if (resolved.workspace == "live" or request.copies) and not inputs.is_racy():
        render_cache.store(request.identity(), prepared, inputs.recording(), trusted=trusted)
    sweep_renderings(record.directory)
    return prepared


def _reads_messages(method: str) -> bool:
    """Whether a run reads the messages of MCP; a policy can accept that it does not."""
    return registry.declaration(method).of("mcp.tools").level == "exact"


def _changes_platform(resolved: ResolvedPolicy, method: str, request: RunRequest) -> str:
    """The platform of `sandwright-changes` in a review; empty in a run without it."""
    return resolved.facts.platform if request.copies and lists_changes(resolved, method) else ""


def _check_shows_copies(resolved: ResolvedPolicy, method: str, request: RunRequest) -> None:
    """Raise UsageError where a review's command would see the project itself."""
    support = registry.declaration(method).of("workspace")
    if request.copies and support.level != "exact":
        raise UsageError(f"{method} has no review workspace: {support.reason}")
    if request.copies and resolved.credentials.needs_bridge and registry.properties(method).shims:
        raise UsageError(
            "credentials.shims and credentials.signing: programs of the bridge run in the project itself, "
            "not in a copy"
        )


def _with_creatable(policy: MergedPolicy, request: RunRequest) -> MergedPolicy:
    """The policy for inside, which does not protect names that can be created in the copy of a review."""
    if not request.creatable:
        return policy
    reason = "`sandwright apply` holds it back"
    layer = exceptions_layer(request.creatable, reason=reason, what="the review workspace")
    return MergedPolicy.from_layers([*policy.layers, layer])


def _render_notes(
    notes: list[str], resolved: ResolvedPolicy, backend: Backend, rendered: Rendered, inputs: LiveHost
) -> Iterator[str]:
    """Notes about a sandbox for the person, when it is rendered."""
    yield from filter(None, notes)
    yield from collect_warnings(
        resolved,
        inputs,
        mounts=registry.declaration(backend.name).mounts,
        image_root=registry.properties(backend.name).root == "image",
    )
    yield from (str(each) for each in rendered.findings if each.kind != "left-out")


def load_layers(request: RunRequest, inputs: LiveHost, *, display_name: str = "") -> MergedPolicy:
    """Merge the policy's layers: the managed policy (`FLOOR`), the user's, the project's file, this run's.

    `display_name` is the file's name in messages, by default its whole path.
    """
    environ = dict(os.environ)
    if request.method:
        environ["SANDBOX_METHOD"] = request.method
    file = Path(request.policy)
    _record_search(request, inputs)
    for path in (FLOOR, user_file(environ), file):
        inputs.content(str(path))
    methods = registry.registered()
    layers = layers_for(file.parent, environ, settings=request.settings, methods=methods)
    layers = tuple(layer for layer in layers if layer.kind != "project")
    if request.has_policy():
        layers = (*layers, read_layer(file, kind="project", methods=methods, display_name=display_name))
    elif user_dirs.holds_home(str(file.parent)):
        raise UsageError(
            f"there is no {file.name} here, and {file.parent} holds your whole home directory, which the "
            "command could write: change into the project's directory"
        )
    below = base_presets([each for each in layers if each.kind != "floor"])
    has_image = any(each.policy.image for each in layers)
    run_presets = given_presets(request.presets, below, image=not has_image)
    return MergedPolicy.from_layers([*run_presets, *layers])


def _record_search(request: RunRequest, inputs: LiveHost) -> None:
    """Record the places where the policy's file was searched (`user_dirs.find_above`), and the user."""
    if not request.named:
        for folder in (request.cwd, *ancestors(request.cwd)):
            inputs.entry(f"{folder.rstrip('/')}/{Path(request.policy).name}")
            inputs.ask("status", folder)
        inputs.real(user_dirs.home())
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        inputs.ask("status", runtime)


def resolved_with(request: RunRequest, settings: Sequence[str] = (), *, digest: str = "") -> ResolvedPolicy:
    """A request's policy on this machine, with further settings of the run. Raise SandwrightError.

    `digest` is that of the policy without them, where that must not have changed.
    """
    if digest and not settings:
        return _resolved_unchanged(request, digest)
    inputs, changed = LiveHost(), copy.copy(request)
    if digest:
        _refuse_changed_policy(load_layers(request, inputs), request, digest)
    changed.settings = [*request.settings, *settings]
    return resolved_here(load_layers(changed, inputs), changed, inputs)


def resolved_here(
    policy: MergedPolicy,
    request: RunRequest,
    inputs: LiveHost,
    *,
    project: Path | None = None,
    other: Callable[[HostFacts], HostFacts] | None = None,
) -> ResolvedPolicy:
    """The policy on this machine, for `run` and for `verify`.

    Raise UsageError if it could change sandwright itself.

    `project` is another directory than that of the request's policy, `other` a function that changes the
    facts.
    """
    for directory in user_dirs.hidden_directories()[:2]:
        user_dirs.private(directory)
    _remember_directories()
    root = Path(request.policy).parent if project is None else project
    cwd = request.cwd if project is None else None
    facts = collect_facts(policy, project=root, cwd=cwd, inputs=inputs, account=True)
    if cwd and inputs.real(cwd) != cwd:  # the kernel named it without links: something else is there now
        raise UsageError(f"{cwd} was replaced by a link while the sandbox was prepared: nothing was started")
    found = policy.resolve(facts if other is None else other(facts))
    refuse_changeable(found)
    process.avoid_writable(found.filesystem.tree.changes_host)
    return found


def _remember_directories() -> None:
    """Record the directories that this run's variables name.

    A later run without them has to reserve those, too.
    """
    named = trusted_directories(os.environ)
    trusted = [path for path in named if Path(user_dirs.variables_directory(path)).is_dir()]
    with contextlib.suppress(HostError):  # a home that can't be written has no key, and nothing is cached
        user_dirs.private(user_dirs.keys())
        user_dirs.remember_directories(
            {"hidden": user_dirs.hidden_directories(), "readonly": user_dirs.readonly(), "trusted": trusted}
        )


def _agent(policy: MergedPolicy, request: RunRequest) -> str:
    """The coding agent that is run, if its preset is in the policy; else empty."""
    name = request.argv[0] if request.argv else ""
    names = {
        *request.presets,
        *base_presets([each for each in policy.layers if each.kind not in ("floor", "run")]),
    }
    return name if name in AGENTS and f"agent-{name}" in names else ""


def _host_program(agent: str, resolved: ResolvedPolicy, inputs: LiveHost) -> HostProgram | None:
    from sandwright.session import hostprogram  # noqa: PLC0415 - few runs show an agent in an image

    return hostprogram.find_host_program(agent, resolved, inputs)


def _about_agent(agent: str, program: HostProgram | None, image: str) -> str:
    if program is None:
        return f"{agent} is not a program on your PATH: the image {image} has to have it"
    return f"{agent} is this host's, read-only inside: {', '.join(program.paths)}"


def _default_policy_note(policy: MergedPolicy, request: RunRequest, method: str) -> str:
    """The note of a run without a sandbox.yaml: which presets hold, and which command writes a policy."""
    below = base_presets([each for each in policy.layers if each.kind not in ("floor", "run")])
    names = request.presets or list(below)
    agents = [name.removeprefix("agent-") for name in names if name.startswith("agent-")]
    keep = f"sandwright init --agent {agents[0]}" if len(agents) == 1 else "sandwright init"
    which = f"preset {' and '.join(names)}" if names else "no preset"
    where = f"no {Path(request.policy).name} here or above"
    review = "; `run --review` changes a copy first" if agents and not request.workspace else ""
    return f"{where}: taking {which}, method {method}; `{keep}` writes a policy to keep{review}"


def choose_method(
    resolved: ResolvedPolicy, inputs: LiveHost, *, proposed: bool = False
) -> tuple[Backend, list[str]]:
    """The first of the policy's methods that works, and why no earlier one. Raise HostError.

    `proposed`: where it names none, the first that works of those that `sandwright init` proposes.
    """
    host = collect_host()
    methods = resolved.methods or (registry.default_methods(host.os) if proposed else ())
    if not methods:
        raise UsageError("the policy names no method: method: bwrap, or methods: [gvisor, docker]")
    refused: list[str] = []
    for name in methods:
        earlier = len(refused)
        for variant in registry.method_candidates(name, resolved):
            backend = registry.backend(variant)
            found = preflights.cached_preflight(backend, host)
            inputs.ask_all(preflights.preflight_questions(found, backend, host))
            if found.ready:
                why = f" ({'; '.join(refused)})" if refused else ""
                notes = [f"method: {name}{why}"] if len(methods) > 1 and (why or not proposed) else []
                weaker = registry.find(variant)[2].fallback
                return backend, [*notes, *([f"{name}: {weaker} ({refused[earlier]})"] if weaker else [])]
            refused.append(found.describe())
    raise HostError(*refused, *(_last_resorts(methods, host) if not resolved.methods else ()))


def _last_resorts(tried: Sequence[str], host: MachineFacts) -> Iterator[str]:
    """Advice about a method that works here, but only for a policy that accepts its gaps."""
    for name in registry.default_methods(host.os, last_resort=True):
        if name not in tried and preflights.cached_preflight(registry.backend(name), host).ready:
            yield f"{name} works here, and enforces less: `sandwright init` writes a policy that accepts that"


def _check_rendered(
    policy: MergedPolicy, backend: Backend, method: str, request: RunRequest, inputs: LiveHost
) -> str:
    """Compare the method's artifacts in the project with those that the policy renders to now.

    A run starts none of them: it renders its own. So a difference gives a note; it is an error only with
    `--rendered` or in CI.
    """
    folder = Path(request.policy).parent / RENDERED / method
    strict = request.rendered or inputs.variable("CI") == "true"
    inputs.kind_behind(str(folder / MANIFEST))
    if not (folder / MANIFEST).exists():
        if request.rendered:
            raise IntegrityError(f"--rendered: no {folder / MANIFEST}; `sandwright render` writes it")
        return ""
    if not request.rendered and (request.settings or request.presets):
        return ""
    artifacts = registry.render(policy.resolve(collect_facts(policy)), backend.name).artifacts
    for each in artifacts:
        inputs.content(str(folder / each.name))
    differing = [each.name for each in artifacts if _differs(folder / each.name, each)]
    if differing and strict:
        raise IntegrityError(
            f"{folder}: {', '.join(differing)}: not what the policy renders to now: one of them was changed; "
            f"look at `sandwright render --diff`, then render again or remove {folder}"
        )
    return f"{folder} is out of date and not used; `sandwright render` updates it" if differing else ""


def _differs(path: Path, artifact: Artifact) -> bool:
    """Whether it is not a regular file: a stranger's project may have a pipe without a writer."""
    try:
        return read_start(path, size=len(artifact.content) + 1) != artifact.content
    except OSError:
        return True


def _sandbox_record(
    resolved: ResolvedPolicy,
    backend: Backend,
    rendered: Rendered,
    directory: Path,
    *,
    request: RunRequest,
    policy: MergedPolicy,
) -> SandboxRecord:
    """The record of a sandbox that each of its sessions contains."""
    declaration = registry.declaration(backend.name)
    return SandboxRecord(
        boot=boot(),
        machine=machine(),
        method=backend.name,
        project=resolved.facts.project,
        policy=_policy_digest(policy),
        artifacts={each.name: each.digest for each in rendered.artifacts},
        directory=str(directory),
        placeholders=_placeholder_paths(resolved, registry.properties(backend.name)),
        enforced=enforced_features(resolved, rendered),
        after=PostRun(
            policy=request.policy,
            scope=scan_scope(resolved, declaration),
            context=denial_context(resolved, declaration),
        ),
    )


def _proxy_plan(resolved: ResolvedPolicy, method: str, inputs: LiveHost) -> ProxyPlan | None:
    """The plan of its proxy, if a session starts one; it is valid while these programs are the same."""
    if resolved.network.mode != "proxy" or registry.proxy_starter(method, resolved) != "session":
        return None
    from sandwright.egress.plan import plan_proxy  # noqa: PLC0415 - costs milliseconds, and few have one

    plan = plan_proxy(resolved)
    for word in plan.command:
        if word.startswith("/"):
            inputs.program(Path(word).name)
            inputs.ask("stamp", word)
    return plan


def _placeholder_paths(resolved: ResolvedPolicy, properties: Properties) -> tuple[str, ...]:
    """The files that its launcher puts into the project for the time of a run."""
    if not properties.placeholders:
        return ()
    supervised = properties.supervises_creation
    return tuple(
        each.path for each in mount_plan(resolved, root=properties.root, supervised=supervised).placeholders
    )


def _launcher_argv(backend: Backend, directory: Path, *, terminal: bool) -> tuple[str, ...]:
    """The launcher's arguments, without the command behind them."""
    words = backend.wrap(directory, [_COMMAND_MARK], terminal=terminal)
    if words[-1:] != (_COMMAND_MARK,) or _COMMAND_MARK in words[:-1]:
        raise UsageError(f"the method {backend.name} does not put the command last")
    return tuple(words[:-1])


def _policy_digest(policy: MergedPolicy) -> str:
    """The SHA-256 of the layers' data in their order, so that formatting and comments don't count."""
    encoded = json.dumps([[layer.kind, layer.document.data] for layer in policy.layers], sort_keys=True)
    return f"sha256:{hashlib.sha256(encoded.encode('utf-8', 'surrogateescape')).hexdigest()}"


def enforced_features(resolved: ResolvedPolicy, rendered: Rendered) -> Enforced:
    """The features that a session enforces, by the policy's names."""
    rules = [rule for rule in resolved.filesystem.rules if rule.origin == "listed"]
    unset = {
        each.use.feature.removeprefix("resources.") for each in rendered.findings if each.kind == "left-out"
    }
    limits = resolved.resources
    set_limits = {name: getattr(limits, name) for name in ("memory", "cpus", "pids", "files", "time")}
    return Enforced(
        network=resolved.network.mode,
        write=tuple(rule.path for rule in rules if rule.kind == "write"),
        denied=sum(rule.kind == "deny" for rule in rules),
        seccomp=resolved.process.seccomp,
        privileged=resolved.process.sandbox_root,
        limits={name: value for name, value in set_limits.items() if value is not None and name not in unset},
        degraded=tuple(each.use.feature for each in rendered.findings if each.kind in ("partly", "degraded")),
        stricter=tuple(each.use.feature for each in rendered.findings if each.kind == "stricter"),
    )


def _resolved_unchanged(request: RunRequest, digest: str) -> ResolvedPolicy:
    """Load and resolve the policy again. Raise IntegrityError when its digest is not `digest`."""
    inputs = LiveHost(request.copies)
    policy = load_layers(request, inputs)
    _refuse_changed_policy(policy, request, digest)
    return resolved_here(_with_creatable(policy, request), request, inputs)


def _refuse_changed_policy(policy: MergedPolicy, request: RunRequest, digest: str) -> None:
    if _policy_digest(policy) != digest:
        raise IntegrityError(f"{request.policy} was changed meanwhile: start it again")


def start_bridge(request: RunRequest, stack: contextlib.ExitStack, digest: str) -> Bridge:
    """Start the bridge of a session, until `stack` is closed.

    The launcher must get its variables and its channel. `digest` is the policy's. Raise IntegrityError for
    another one.
    """
    from sandwright.bridge.start import serve  # noqa: PLC0415 - few sessions have one

    return stack.enter_context(serve(_resolved_unchanged(request, digest)))


def ask_program(inputs: LiveHost) -> None:
    """Ask about our own code and data, and methods of others: an upgrade makes cached renderings stale."""
    package, ours = Path(__file__).parents[1], ("sandwright", *registry.packages())
    files = [
        str(getattr(each, "__file__", None) or "")
        for name, each in sorted(sys.modules.items())
        if name.split(".")[0] in ours
    ]
    folders = {os.path.dirname(file): None for file in files if file}  # noqa: PTH120 - of hundreds
    more = (*package.glob("*/programs/*"), package / "policy/presets", *(data_path(room) for room in _ROOMS))
    below = (each for folder in more for each, _, _ in os.walk(folder))
    inputs.ask("tree", *folders, *(each for each in below if not each.endswith("/__pycache__")))
