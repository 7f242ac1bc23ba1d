"""The output of `sandwright sbpl-eval`, for one question or a batch, as text and as JSON.

Pure: the command line reads the profile, prints the result, and turns errors into exit codes.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.evaluate.sbpl.decide import Evaluator, SbplDecision, Shadowed
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.imports import APPROXIMATE, FileImporter
from sandwright.evaluate.sbpl.library import Importer, MissingParameter
from sandwright.evaluate.sbpl.paths import Links
from sandwright.evaluate.sbpl.profile import PRELUDE, compile_profile, run_profile
from sandwright.evaluate.sbpl.request import Resource, parse_request
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import readable

Json = dict[str, Any]

_BATCH_KEYS = frozenset({"id", "profile", "op", "resource", "params", "symlinks"})


def pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """The `KEY=VALUE` arguments of an option. Raise UsageError for one without `=` and for a key twice."""
    found: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} needs KEY=VALUE, not {item!r}")
        if key in found:
            raise UsageError(f"{option} gives {key!r} twice")
        found[key] = value
    return found


def evaluate_command(
    profile: str | bytes,
    operation: str,
    *,
    file: str,
    resource: Sequence[str] = (),
    define: Sequence[str] = (),
    symlink: Sequence[str] = (),
    importer: Importer | None = None,
    fragment: bool = False,
) -> tuple[str, Json]:
    """Answer one question: as the lines a person reads, and as the object `--json` prints.

    `resource`, `define` and `symlink` are the values of `--resource`, `-D` and `--symlink`, each `KEY=VALUE`.
    For a `fragment`, the usual start of a profile is assumed, and the output says so. Raise ProfileError when
    the profile does not compile, which names the parameters that it lacks; UsageError when the question makes
    no sense.
    """
    importer = importer if importer is not None else FileImporter(trusted=True)
    params = pairs(define, "-D")
    try:
        compiled = compile_profile(profile, file=file, params=params, importer=importer, fragment=fragment)
    except ProfileError as error:
        whole = run_profile(
            profile, lambda _: None, file=file, params=params, importer=importer, fragment=fragment
        )
        raise _with_missing(error, whole.missing_params) from None
    evaluator = Evaluator(compiled, symlinks=pairs(symlink, "--symlink"))
    request = parse_request(pairs(resource, "--resource"))
    path = request.path
    decision = evaluator.decide_request(operation, request)
    answer = _decision_json(decision, evaluator.shadowed(decision, request))
    if request.path is not None:
        answer["path"] = readable(request.path)
    answer["approximate"] = sorted(
        {found.file for found in compiled.imports if found.file.endswith(APPROXIMATE)}
    )
    answer["missing"] = _parameter_names(compiled.missing_params)
    answer["assumed"] = PRELUDE.splitlines() if fragment else []
    answer["version"] = compiled.version
    return _answer_text(answer, None if path is None else readable(path)), answer


def _parameter_names(missing: Iterable[MissingParameter]) -> list[str]:
    return sorted({each.name for each in missing})


def _with_missing(error: ProfileError, missing: Iterable[MissingParameter]) -> ProfileError:
    """The error, and the parameters without a value, by which a profile often fails."""
    names = _parameter_names(missing)
    if not names:
        return error
    give = " ".join(f"-D {name}=…" for name in names)
    return ProfileError(error.position, f"{error.message}; parameters without a value, to give: {give}")


def _decision_json(decision: SbplDecision, shadowed: Sequence[Shadowed]) -> Json:
    return {
        "decision": decision.decision,
        "stage": decision.stage,
        **_rule_json(decision.rule),
        "operation": decision.operation,
        "level": decision.level,
        "link": decision.link,
        "note": decision.note,
        "shadowed": [
            {"decision": item.rule.action, **_rule_json(item.rule), "level": item.level} for item in shadowed
        ],
    }


def _rule_json(rule: Rule | None) -> Json:
    if rule is None:
        return dict.fromkeys(("rule", "file", "line", "column"))
    where = rule.position
    return {"rule": rule.text, "file": where.file, "line": where.line, "column": where.column}


def _answer_text(answer: Json, path: str | None) -> str:
    lines = [answer["decision"], f"stage: {answer['stage']}"]
    lines.append(
        f"rule: {_rule_position(answer)}" if answer["rule"] is not None else f"reason: {answer['note']}"
    )
    if answer["link"] is not None:
        lines.append(f"link: {answer['operation']} {answer['link']}, a symbolic link on the way to {path}")
    elif answer.get("path", path) != path:
        lines.append(f"path: {answer['path']}")
    lines.extend(f"shadowed: {_rule_position(item)}" for item in answer["shadowed"])
    lines.extend(f"approximate: {name}" for name in answer["approximate"])
    if answer["missing"]:
        lines.append(f"without a value: {' '.join(f'-D {name}=…' for name in answer['missing'])}")
    if answer["assumed"]:
        lines.append(f"assumed before the fragment: {' '.join(answer['assumed'])}")
    if answer["version"] != 1:
        lines.append(f"read as (version 1): (version {answer['version']})")
    return "\n".join(lines)


def _rule_position(item: Json) -> str:
    return f"{item['file']}:{item['line']}:{item['column']}: {item['rule']}"


def evaluate_batch(
    lines: Iterable[str],
    *,
    file: str = "batch",
    importer: Importer | None = None,
    fragment: bool = False,
) -> Iterator[str]:
    """Answer questions given as JSON lines with JSON lines, each as soon as its question is read.

    A profile that does not compile and a question that makes no sense give `"decision": "compile-error"` and
    say why under `error`. A question may have further keys, such as the expected answer; a key that
    resembles one of ours is an error. Raise DocumentError, naming `file` and the line, for a line that is
    no question.
    """
    batch = _Batch(importer if importer is not None else FileImporter(), fragment=fragment)
    for number, line in enumerate(lines, 1):
        if line.strip():
            question = _parse_question(line, file, number)
            yield json.dumps(batch.answer(question))


class _Batch:
    """Compiles each profile of a batch once, as far as memory allows."""

    def __init__(self, importer: Importer, *, fragment: bool = False) -> None:
        self._importer = importer
        self._fragment = fragment
        self._compiled = functools.lru_cache(maxsize=32)(self._compile_evaluator)

    def answer(self, question: Json) -> Json:
        """The answer to one question."""
        base = {"id": question["id"], "decision": "compile-error", "rule": None, "line": None, "stage": None}
        try:
            params = tuple(sorted((question.get("params") or {}).items()))
            found = self._compiled(question["profile"], params)
            if isinstance(found, ProfileError):
                return {**base, "line": found.position.line, "error": str(found)}
            return {**base, **self._decide(found, question)}
        except UsageError as error:
            return {**base, "error": str(error)}

    def _decide(self, evaluator: Evaluator, question: Json) -> Json:
        links = Links(question.get("symlinks"))
        resource: Resource = question.get("resource") or {}
        decision = evaluator.at(links).decide(question["op"], resource)
        rule = decision.rule
        return {
            "decision": decision.decision,
            "rule": None if rule is None else rule.text,
            "line": None if rule is None else rule.position.line,
            "stage": decision.stage,
        }

    def _compile_evaluator(self, text: str, params: tuple[tuple[str, str], ...]) -> Evaluator | ProfileError:
        try:
            params_by_name = dict(params)
            return Evaluator(
                compile_profile(text, params=params_by_name, importer=self._importer, fragment=self._fragment)
            )
        except ProfileError as error:
            return error


def _parse_question(line: str, file: str, number: int) -> Json:
    """The question on a line of a batch."""

    def wrong(message: str, column: int = 1) -> DocumentError:
        return DocumentError(file, [Problem(number, column, "", message)])

    try:
        question = strictjson.loads(line)
    except ValueError as error:
        raise wrong(f"not JSON: {error}", getattr(error, "colno", 1)) from None
    if not isinstance(question, dict):
        raise wrong("a question is a JSON object")
    for key, kind in {"profile": str, "op": str}.items():
        if not isinstance(question.get(key), kind):
            raise wrong(f"a question needs {key!r}, a string")
    for key in ("resource", "params", "symlinks"):
        if not isinstance(question.get(key) or {}, Mapping):
            raise wrong(f"{key!r} of a question is an object")
    for key in ("params", "symlinks"):
        if not all(isinstance(value, str) for value in (question.get(key) or {}).values()):
            raise wrong(f"the values of {key!r} are strings")
    for name, intended in _misspelt(question):
        raise wrong(f"a question has no key {name!r}; did you mean {intended!r}?")
    return {"id": None, **question}


def _misspelt(question: Json) -> Iterator[tuple[str, str]]:
    """Keys that differ from one of ours by a letter or two, and which that is."""
    for name in sorted(question.keys() - _BATCH_KEYS):
        for intended in difflib.get_close_matches(name, sorted(_BATCH_KEYS), n=1, cutoff=0.9):
            yield name, intended
