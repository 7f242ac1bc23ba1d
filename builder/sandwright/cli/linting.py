"""The command that looks for faults in profiles and policies: `sandwright lint`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.arguments import read_file
from sandwright.cli.policy_arguments import load_policy, read_facts, request_for
from sandwright.errors import DocumentError, RenderError, SandwrightError, UsageError, VerdictError
from sandwright.evaluate.sbpl.command import pairs
from sandwright.evaluate.sbpl.imports import FileImporter
from sandwright.evaluate.sbpl.lint import lint as lint_sbpl
from sandwright.git.layout import blocking_file
from sandwright.git.tracked import tracked
from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.policy.collect import collect_facts, public_environment
from sandwright.policy.environment_remarks import exported_secrets, unwritable_directories
from sandwright.policy.paths import is_inside
from sandwright.policy.policy_warnings import collect_warnings
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible
from sandwright.reading import refuse_link
from sandwright.seccomp.lint import lint_profile
from sandwright.session.persistent import with_persistent
from sandwright.user_dirs import find_above
from sandwright.visible import one_line


def lint(
    *,
    file: Sequence[str] | None = None,
    facts: str = "",
    D: Sequence[str] | None = None,  # noqa: N803 - the option's name, as sandbox-exec has it
) -> Checked:
    """Show likely mistakes in profiles, or in the project's policy. Raise VerdictError for an error."""
    files = list(dict.fromkeys(file or [find_above("sandbox.yaml")]))
    params = pairs(D or (), "-D")
    for option, suffixes in (("-D", (".sb",)), ("--facts", _POLICIES)):
        if (params if option == "-D" else facts) and not any(Path(each).suffix in suffixes for each in files):
            raise UsageError(f"{option} is for {' and '.join(suffixes)} files; none is given")
    bad = [each for each in files if not _lint_file(each, facts, params, alone=len(files) == 1)]
    if bad:
        raise VerdictError(f"{', '.join(map(one_line, bad))} {'has' if len(bad) == 1 else 'have'} errors")
    return Checked(len(files))


_POLICIES = (".yaml", ".yml")


def _lint_file(file: str, facts: str, params: Mapping[str, str], *, alone: bool) -> bool:
    """Show likely mistakes in one file; return whether it has no errors.

    One that can't be read is an error of that file, and ends the command only where it is `alone`.
    """
    try:
        lines = list(_lint(file, facts, params))
    except SandwrightError as error:
        if alone:
            raise
        problems = error.problems if isinstance(error, DocumentError) else ()
        lines = [("error", each.render(file)) for each in problems] or [("error", str(error))]
    for _, line in lines:
        console.line(line)
    if not lines:
        console.line(f"{file}: nothing found")
    return all(severity != "error" for severity, _ in lines)


def _lint(file: str, facts: str, params: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Severity and line of each finding."""
    match Path(file).suffix:
        case ".sb":
            found = lint_sbpl(read_file(file), file=file, params=params, importer=FileImporter(trusted=True))
            if any(finding.severity == "error" for finding in found):
                refuse_link(file, file)
            yield from ((finding.severity, str(finding)) for finding in found)
        case ".json":
            faults = lint_profile(read_file(file), file)
            yield from ((fault.severity.value, fault.render(file)) for fault in faults)
        case ".yaml" | ".yml":
            yield from _lint_policy(file, facts)
        case _:
            raise UsageError(f"{file}: by its name neither a .sb, a .json nor a .yaml file")


def _lint_policy(file: str, facts: str) -> Iterator[tuple[str, str]]:
    """Findings on a policy: unenforceable features, settings with less effect, denied files in Git.

    Where the policy can't be resolved on this host, a warning with the reason.
    """
    with warnings.catch_warnings(record=True) as retired:
        policy = load_policy(request_for(file))
    yield from (("warning", one_line(str(each.message))) for each in retired)
    if facts:
        yield from _unenforced_features(policy.resolve(read_facts(facts, policy)))
        return
    try:
        found_facts = collect_facts(policy, environ=public_environment(os.environ))
        resolved = policy.resolve(with_persistent(found_facts, policy))
        mounts = all(registry.declaration(name).mounts for name in resolved.methods[:1])
        image_root = all(registry.properties(name).root == "image" for name in resolved.methods[:1])
        found = collect_warnings(resolved, LiveHost(), mounts=mounts, image_root=image_root)
        yield from (("warning", each) for each in found)
        about = (*unwritable_directories(resolved, os.environ), *exported_secrets(resolved, LiveHost()))
        yield from (("warning", one_line(each)) for each in about)
    except SandwrightError as error:
        yield (
            "warning",
            f"{file}: its methods were not checked, because the policy cannot be resolved here: {error}",
        )
        return
    yield from _unenforced_features(resolved)
    project = resolved.canonical(resolved.facts.project)
    if blocking := blocking_file(Path(project)):
        yield (
            "warning",
            f"{blocking} is not a regular file: Git would wait for it, so Git was not asked which files "
            "it tracks",
        )
    names = [f"{project}/{name}" for name in tracked(Path(project))]
    for rule in resolved.filesystem.rules:
        denied = rule.kind == "deny" and rule.origin == "listed" and is_inside(rule.path, project)
        if denied and any(is_inside(name, rule.path) for name in names):
            position = f"{rule.source.file}:{rule.source.line}:{rule.source.column}: {rule.source.field}"
            yield (
                "warning",
                f"{position}: Git tracks {rule.written}, so everybody with the repository can read it; "
                "hiding it may break `git commit` and tools that read it",
            )


def _unenforced_features(policy: ResolvedPolicy) -> Iterator[tuple[str, str]]:
    """The features of a policy that its methods can't enforce, with the way out, as `render` prints it."""
    for method in policy.methods:
        try:
            check_expressible(policy, registry.declaration(method))
        except RenderError as error:
            yield from (("error", line) for line in str(error).splitlines())
