"""Spells a container as a service of a Compose file (compose-spec, 2025), for starts without `launch`.

Compose lacks some features of the launcher, and the file lists them: there are no placeholders, so Git
directories are read-only as a whole; there is no time limit; variables are not passed by pattern; nothing
checks for changes since the rendering.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sandwright.methods.shared.engine.arguments import limits_of_processors, scratch_mount, ulimits
from sandwright.methods.shared.engine.container import Container, network_files, with_mounts
from sandwright.methods.shared.yamltext import yaml_quoted, yaml_text
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import loads_code
from sandwright.render.mounts import MountPlan
from sandwright.render.without_placeholders import without_placeholders

Json = dict[str, Any]

SERVICE = "sandbox"

ABSENT_NAMES = (
    "restricted names that don't exist yet can be created inside, and can be read once the host has them"
)
"""The limitation that the file's head states."""


def compose_file(policy: ResolvedPolicy, plan: MountPlan, container: Container) -> str:
    """The Compose file: one service, to be run with `docker compose run --rm sandbox COMMAND`.

    `plan` is the one that the launcher's `container` was made from. Paths are relative to the file. Raise
    RenderError for a colon in a temporary directory's path.
    """
    container = with_mounts(container, without_placeholders(policy, plan))
    service = {
        **_image_keys(container),
        **_rights_keys(container),
        **_limit_keys(container),
        "environment": list(_environment_items(policy, container)),
        "tmpfs": [scratch_mount(container, path) for path in container.scratch],
    }
    document = {"name": "sandwright", "services": {SERVICE: _literal(service)}}
    text = yaml_text(document, note=_header_comment(policy, plan, container))
    volumes = "".join(f"    - {volume}\n" for volume in _volume_items(container))
    return f"{text}    volumes:\n{volumes}"


def _image_keys(container: Container) -> Json:
    return {
        "image": container.image,
        "pull_policy": "never",
        "init": True,
        "entrypoint": [],
        "stdin_open": True,
        "hostname": container.hostname,
        "working_dir": container.directory,
        "network_mode": container.network,
        "labels": {"sandwright.session": "compose"},
        "logging": {"driver": "none"},
        "healthcheck": {"disable": True},
        "restart": "no",
    }


def _rights_keys(container: Container) -> Json:
    nothing_gained = [] if container.gains_rights else ["no-new-privileges:true"]
    masks = [f"mask={':'.join(container.masked)}"] if container.masked else []
    rights: Json = {
        "read_only": True,
        "ipc": "private",
        "cgroup": "private",
        "cap_drop": ["ALL"],
        "cap_add": list(container.capabilities),
        "security_opt": [*nothing_gained, "seccomp:./seccomp.json", *masks],
    }
    if not container.capabilities:
        del rights["cap_add"]
    if container.user is not None:
        rights["user"] = "{}:{}".format(*container.user)
    if container.keep_id:
        rights["userns_mode"] = "keep-id"
    return rights


def _limit_keys(container: Container) -> Json:
    limits = container.limits
    found: Json = {
        "ulimits": {name: {"soft": limit, "hard": limit} for name, limit in sorted(ulimits(limits).items())},
    }
    if limits.memory is not None:
        found |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
    if limits.cpus is not None:
        period, quota = limits_of_processors(limits.cpus)
        found |= {"cpu_period": period, "cpu_quota": quota}
    if limits.pids is not None:
        found["pids_limit"] = limits.pids
    return found


def _environment_items(policy: ResolvedPolicy, container: Container) -> Iterator[str]:
    """Values, then names whose values Compose takes from its own environment, then empty ones."""
    yield from (f"{name}={value}" for name, value in sorted(container.environment.items()))
    for pattern in policy.environment.passed:
        if not pattern.endswith("*") and policy.environment.passes(pattern) and not loads_code(pattern):
            yield pattern
    yield from (f"{name}=" for name in container.unset)


def _volume_items(container: Container) -> Iterator[str]:
    """The items of the list that is last in the service, a line each: there may be thousands."""
    for bind in container.binds:
        yield _bind_volume(bind.source, bind.target, writable=bind.writable)
    for path in container.files:
        yield _bind_volume("/dev/null", path)
    for path in container.folders:
        yield f"{{type: tmpfs, target: {_compose_text(path)}, read_only: true, tmpfs: {{mode: {0o555}}}}}"
    accounts = ("passwd", "group") if container.account is not None else ()
    for name in (*accounts, *network_files(container)):
        yield _bind_volume(f"./{name}", f"/etc/{name}")


def _bind_volume(source: str, target: str, *, writable: bool = False) -> str:
    access = f"read_only: {'false' if writable else 'true'}"
    options = "bind: {create_host_path: false, propagation: rprivate}"
    paths = f"source: {_compose_text(source)}, target: {_compose_text(target)}"
    return f"{{type: bind, {paths}, {access}, {options}}}"


def _compose_text(text: str) -> str:
    return f'"{text}"' if _PLAIN.fullmatch(text) else yaml_quoted(_literal(text))


_PLAIN = re.compile(r"[A-Za-z0-9/._ -]*")


def _literal(value: Any) -> Any:  # noqa: ANN401 - any value of the file
    """The same with every dollar sign doubled: Compose replaces variables in values, and in none of ours."""
    match value:
        case str():
            return value.replace("$", "$$")
        case dict():
            return {key: _literal(item) for key, item in value.items()}
        case list():
            return [_literal(item) for item in value]
        case _:
            return value


def _header_comment(policy: ResolvedPolicy, plan: MountPlan, container: Container) -> Iterator[str]:
    engine = "podman" if container.engine == "podman" else "docker"
    yield f"{engine} compose --file compose.yaml run --rm {SERVICE} COMMAND"
    yield "Rendered from the policy. The launcher in this directory enforces more than this file:"
    yield "- nothing here checks whether something has changed since it was rendered"
    patterns = [pattern for pattern in policy.environment.passed if pattern.endswith("*")]
    missing: Mapping[str, bool] = {
        "there is no time limit (resources.time)": policy.resources.time is not None,
        "messages of MCP are not read (mcp.tools)": policy.mcp_tools is not None,
        f"variables are not passed on by pattern ({', '.join(patterns)})": bool(patterns),
        "Git's directories are read-only as a whole: nothing creates placeholders in them": _closes(plan),
        ABSENT_NAMES: bool(plan.placeholders),
    }
    yield from (f"- {text}" for text, there in missing.items() if there)


def _closes(plan: MountPlan) -> bool:
    return any(placeholder.closes for placeholder in plan.placeholders)
