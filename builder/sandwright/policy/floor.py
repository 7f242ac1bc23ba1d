"""The managed policy, `floor` in code, which no layer may loosen: when a value is at least as strict.

A floor is a layer like any other, and each of its keys is a limit too:

| field                              | at least as strict as the floor means                                 |
|------------------------------------|-----------------------------------------------------------------------|
| method, methods                    | only methods that the floor names; without any there, all but noop    |
| workspace                          | review < live                                                         |
| filesystem.read, write             | nothing outside these paths (see `sandwright.policy.path_limits`)     |
| filesystem.deny, readonly, protect | they hold at every path inside                                        |
| filesystem.git                     | a subset                                                              |
| filesystem.placeholders            | true < false                                                          |
| filesystem.home                    | throwaway < private < host                                            |
| filesystem.tmp                     | private < shared                                                      |
| network.mode                       | none < proxy < host                                                   |
| network.allow                      | each pattern is covered by one of the floor's; private by a private   |
| network.http                       | each rule is covered by one of the floor's for the host, or by allow  |
| network.unix_sockets, localhost    | a subset                                                              |
| network.expose                     | a subset                                                              |
| network.ca                         | the same                                                              |
| network.own_sockets                | false < true                                                          |
| process.sandbox_root               | false < true                                                          |
| process.seccomp                    | strict < default < build; a file only when it is the same path        |
| macos                              | a subset                                                              |
| mcp.tools                          | each pattern is covered by one of the floor's                         |
| environment.pass                   | each pattern, and each `${NAME}` in a path, is one of the floor's     |
| environment.set                    | the floor's variables keep its values                                 |
| credentials.cloud                  | none < readonly                                                       |
| credentials.http                   | the same secrets for the same hosts and headers                       |
| credentials.shims                  | no other programs; no other secrets; each command covered             |
| credentials.signing                | a subset                                                              |
| user.mapping                       | required < auto < off                                                 |
| resources                          | no greater limit                                                      |
| image, gvisor.engine               | the same                                                              |
| accept_gaps                        | no other feature of a method                                          |

A key that the floor doesn't have limits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandwright.policy import values
from sandwright.policy.floor_http import http_faults
from sandwright.policy.hosts import ListedHost, listed_pattern
from sandwright.policy.layers import MergedSettings, spelled_paths
from sandwright.policy.mcp_rules import includes_tools
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.provenance import Faults, PolicySource, Sourced
from sandwright.policy.spelling import environment_names
from sandwright.policy.values import UNLIMITED

_ORDERS: Mapping[str, tuple[object, ...]] = {
    "workspace": ("review", "live"),
    "filesystem.placeholders": (True, False),
    "filesystem.home": ("throwaway", "private", "host"),
    "filesystem.tmp": ("private", "shared"),
    "network.mode": ("none", "proxy", "host"),
    "network.own_sockets": (False, True),
    "process.sandbox_root": (False, True),
    "credentials.cloud": ("none", "readonly"),
    "user.mapping": ("required", "auto", "off"),
}
"""Values from the strictest on."""


def check_values(floor: MergedSettings, settings: MergedSettings, faults: Faults) -> None:
    """Add a fault for each value of `settings` that is looser than the floor's; paths are not looked at."""
    for fault in _floor_faults(floor, settings):
        faults.add(*fault)


def _floor_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    yield from _method_faults(floor, settings)
    for name, limit in floor.values.items():
        setting = settings.values.get(name)
        at_most = _VALUES.get(name)
        if setting is not None and at_most is not None and not at_most(name, setting.value, limit.value):
            yield setting.source, _loosening_message(name, setting.value, limit)
    for name, covers in _LISTS.items():
        if name in floor.lists:
            yield from _list_faults(name, floor, settings, covers)
    yield from _variable_faults(floor, settings)
    yield from _path_variable_faults(floor, settings)
    yield from _shim_faults(floor, settings)
    yield from http_faults(floor, settings)


def _loosening_message(name: str, setting: object, limit: Sourced[Any]) -> str:
    if name == "process.seccomp" and not {setting, limit.value} <= {*SECCOMP_PROFILES}:
        why = "a profile in a file is not compared with other profiles"
        return f"{setting} is not the floor's {limit.value} ({limit.source}): {why}"
    return (
        f"{_format_value(setting)} is looser than the floor's {_format_value(limit.value)} ({limit.source})"
    )


def _method_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    """Methods that the floor doesn't name; where it names none, noop, which would not enforce it."""
    limits = [floor.values[name] for name in ("method", "methods") if name in floor.values]
    allowed = [method for limit in limits for method in _method_names(limit.value)]
    for name in ("method", "methods"):
        setting = settings.values.get(name)
        for method in _method_names(setting.value) if setting else ():
            if setting and limits and method not in allowed:
                names = ", ".join(allowed)
                yield (
                    setting.source,
                    f"{method} is not among the floor's methods, {names} ({limits[0].source})",
                )
            elif setting and not limits and method == "noop":
                yield setting.source, "noop enforces nothing, and there is a floor to enforce"


def _method_names(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - of `method` or of `methods`
    return (value,) if isinstance(value, str) else tuple(value)


def _at_most_by_order(name: str, setting: object, limit: object) -> bool:
    order = _ORDERS[name]
    return order.index(setting) <= order.index(limit)


def _is_equal(_name: str, setting: object, limit: object) -> bool:
    return setting == limit


def _seccomp_at_most(_name: str, setting: str, limit: str) -> bool:
    if setting in SECCOMP_PROFILES and limit in SECCOMP_PROFILES:
        return SECCOMP_PROFILES.index(setting) <= SECCOMP_PROFILES.index(limit)
    return setting == limit


def _limit(name: str, setting: Any, limit: Any) -> bool:  # noqa: ANN401 - of the field's type
    if UNLIMITED in (setting, limit):
        return bool(limit == UNLIMITED)
    match name:
        case "resources.memory":
            return values.size(setting) <= values.size(limit)
        case "resources.time":
            return values.duration(setting) <= values.duration(limit)
        case _:
            return bool(setting <= limit)


_VALUES: Mapping[str, Callable[[str, Any, Any], bool]] = {
    **dict.fromkeys(_ORDERS, _at_most_by_order),
    **dict.fromkeys((f"resources.{each}" for each in ("memory", "cpus", "pids", "files", "time")), _limit),
    "process.seccomp": _seccomp_at_most,
    "network.ca": _is_equal,
    "image": _is_equal,
    "gvisor.engine": _is_equal,
}


def _host_covers(limit: str | ListedHost, setting: str | ListedHost) -> bool:
    return listed_pattern(limit).covers(listed_pattern(setting))


def _pattern_covers(limit: str, setting: str) -> bool:
    if setting.endswith("*") and not limit.endswith("*"):
        return False
    return values.pattern_covers(limit, setting.removesuffix("*") if setting.endswith("*") else setting)


def _tool_covers(limit: str, setting: str) -> bool:
    return includes_tools([limit], [setting])


def _equals(limit: object, setting: object) -> bool:
    return limit == setting


def _accepts_gap(limit: Any, setting: Any) -> bool:  # noqa: ANN401 - entries of `accept_gaps`
    return (limit.feature, limit.method) == (setting.feature, setting.method)


_LISTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "network.allow": _host_covers,
    "network.localhost": _equals,
    "network.expose": _equals,
    "filesystem.git": _equals,
    "macos": _equals,
    "mcp.tools": _tool_covers,
    "environment.pass": _pattern_covers,
    "credentials.signing": _equals,
    "accept_gaps": _accepts_gap,
}


def _list_faults(
    name: str, floor: MergedSettings, settings: MergedSettings, covers: Callable[[Any, Any], bool]
) -> Iterator[tuple[PolicySource, str]]:
    limits = floor.items(name)
    for item in settings.items(name):
        if not any(covers(limit.value, item.value) for limit in limits):
            yield (
                item.source,
                f"{_format_value(item.value)} is not in the floor's {name} ({floor.given[name]})",
            )


def _variable_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    variables = settings.entries.get("environment.set", {})
    for name, limit in floor.entries.get("environment.set", {}).items():
        item = variables.get(name, limit)
        if item.value != limit.value:
            yield item.source, f"{name} keeps the value that the floor sets ({limit.source})"
        passed = [
            each for each in settings.items("environment.pass") if values.pattern_covers(each.value, name)
        ]
        if limit.value is None and passed:
            yield passed[0].source, f"{name} is removed by the floor ({limit.source})"


def _path_variable_faults(
    floor: MergedSettings, settings: MergedSettings
) -> Iterator[tuple[PolicySource, str]]:
    """Variables in paths: a sandbox reads their values in the names of its mounts."""
    limits = floor.lists.get("environment.pass")
    removed = {name for name, item in floor.entries.get("environment.set", {}).items() if item.value is None}
    for path, source in spelled_paths(settings):
        for name in sorted(environment_names(path)) if source.layer != "floor" else ():
            listed = limits is None or any(values.pattern_covers(limit.value, name) for limit in limits)
            if name in removed or not listed:
                why = "the floor removes it" if name in removed else "the floor's environment.pass lacks it"
                yield source, f"{path} would show the value of {name} inside: {why}"


def _shim_faults(floor: MergedSettings, settings: MergedSettings) -> Iterator[tuple[PolicySource, str]]:
    limits = floor.entries.get("credentials.shims")
    if limits is None:
        return
    for name, item in settings.entries.get("credentials.shims", {}).items():
        limit = limits.get(name)
        if item.value is None:
            continue
        if limit is None or limit.value is None:
            yield item.source, f"{name} is not among the floor's shims"
        elif not _shim_covers(limit, item):
            yield item.source, f"{name} has more secrets or commands than the floor gives it ({limit.source})"


def _shim_covers(limit: Sourced[Any], setting: Sourced[Any]) -> bool:
    allowed = [values.command(text) for text in limit.value.allow]
    return setting.value.secrets.items() <= limit.value.secrets.items() and all(
        any(each.covers(values.command(text)) for each in allowed) for text in setting.value.allow
    )


def _format_value(value: object) -> str:
    feature = getattr(value, "feature", None)
    if feature is not None:
        return f"{feature} for {getattr(value, 'method', '')}"
    return str(value).lower() if isinstance(value, bool) else str(value)
