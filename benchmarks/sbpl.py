"""How fast the evaluator of sandbox profiles decides.

    python benchmarks/sbpl.py [--json FILE]

One process, processor time, the rounds of all measurements interleaved; the median and the best round are
shown. The profile has 300 rules: subpaths, literals, regexes, exceptions with `require-not`, services by name
and by regex. *Warm* asks about directories that were asked about before, *cold* only about new ones. *One by
one* is the definition, without tables: each rule's filters tried in turn. The yardstick is a loop of
dictionary look-ups, by which rounds of different runs may be compared.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.filters import matches
from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.request import Resource, parse_request

ROUNDS = 7
QUESTIONS = 20_000
RESULTS = Path(__file__).resolve().parent.parent / "build" / "benchmarks" / "sbpl.json"

OPERATIONS = (
    "file-read-data",
    "file-read-metadata",
    "file-write-create",
    "file-write-data",
    "file-read-xattr",
)


def profile_text() -> str:
    """A profile of 300 rules."""
    rules = [
        "(deny default)",
        "(allow process*)",
        '(allow file-read-metadata (literal "/tmp" "/var" "/etc"))',
    ]
    for n in range(100):
        rules.append(f'(allow file-read* (subpath "/Users/u/p{n}/src") (literal "/Users/u/.config/t{n}"))')
    for n in range(60):
        rules.append(f'(allow file-write* (subpath "/Users/u/p{n}/out"))')
        rules.append(rf'(deny file-read* file-write* (regex #"^/Users/u/p{n}/(.*/)?\.env(\.[a-z]+)?$"))')
    for n in range(40):
        tested = f'(require-all (subpath "/Users/u/p{n}") (require-not (subpath "/Users/u/p{n}/out")))'
        rules.append(f"(deny file-write* {tested})")
    for n in range(37):
        rules.append(
            rf'(allow mach-lookup (global-name "com.a.s{n}") (global-name-regex #"^com\.a\.x{n}\."))'
        )
    assert len(rules) == 300
    return "(version 1)\n" + "\n".join(rules)


def questions(seed: int, *, fresh: bool) -> list[tuple[str, Resource]]:
    """Nine of ten about files, one about a service; `fresh` directories have names that no others have."""
    chance = random.Random(seed)
    asked: list[tuple[str, Resource]] = []
    for number in range(QUESTIONS):
        if chance.random() < 0.1:
            asked.append(
                ("mach-lookup", {"global-name": f"com.a.{chance.choice('sx')}{chance.randrange(60)}.y"})
            )
            continue
        directory = f"d{seed}-{number}" if fresh else f"d{chance.randrange(50)}"
        place = (
            f"/Users/u/p{chance.randrange(120)}/{chance.choice(['src', 'out', 'lib', '.git'])}/{directory}"
        )
        place = "/tmp" + place if chance.random() < 0.05 else place
        name = chance.choice(["main.c", ".env", "x.env.local", ".env.prod"])
        asked.append((chance.choice(OPERATIONS), {"path": f"{place}/{name}"}))
    return asked


def decide_all(evaluator: Evaluator, asked: Sequence[tuple[str, Resource]]) -> int:
    """Put all questions; give how many."""
    for operation, resource in asked:
        evaluator.decide(operation, resource)
    return len(asked)


def one_by_one(evaluator: Evaluator, asked: Sequence[tuple[str, Resource]]) -> int:
    """Put the questions by trying each rule; give how many."""
    for operation, resource in asked:
        request = parse_request(resource)
        for level in evaluator.levels(operation):
            if any(any(matches(tested, request) for tested in rule.filters) for rule in level.filtered):
                break
            if level.unfiltered is not None:
                break
    return len(asked)


def look_up() -> int:
    """The yardstick: a million look-ups in a dictionary."""
    table = dict.fromkeys(range(1000), 1)
    total = 0
    for _ in range(1000):
        for key in range(1000):
            total += table[key]
    return total


def contestants(rounds: int) -> dict[str, Callable[[], int]]:
    """What is measured, in so many rounds: each gives how many units it did."""
    text = profile_text()
    evaluator = Evaluator(compile_profile(text))
    warm = questions(1, fresh=False)
    decide_all(evaluator, warm)
    fresh = iter([questions(seed, fresh=True) for seed in range(2, rounds + 2)])
    many = "\n".join(f'(allow file-read* (literal "/p/{n}") (subpath "/p/{n}"))' for n in range(10_000))
    return {
        "decisions, warm": lambda: decide_all(evaluator, warm),
        "decisions, cold": lambda: decide_all(evaluator, next(fresh)),
        "decisions, one by one": lambda: one_by_one(evaluator, warm[:500]),
        "profiles of 300 rules compiled": lambda: len([compile_profile(text) for _ in range(3)]),
        "rules compiled, of 10,000": lambda: len(compile_profile("(version 1)" + many).rules),
        "yardstick: look-ups": look_up,
    }


def measure(rounds: int) -> dict[str, list[float]]:
    """Units per second of processor time, for each round."""
    found: dict[str, list[float]] = {}
    measured = contestants(rounds)
    for _ in range(rounds):
        for name, run in measured.items():
            start = time.process_time()
            count = run()
            found.setdefault(name, []).append(count / (time.process_time() - start))
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write the figures as JSON."""
    parser = argparse.ArgumentParser(description="Measure the evaluator of sandbox profiles.")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    found = measure(options.rounds)
    figures: dict[str, Any] = {}
    for name, rates in found.items():
        figures[name] = {"median": statistics.median(rates), "best": max(rates)}
        print(f"{name:32} {statistics.median(rates):14,.0f} /s   best {max(rates):14,.0f} /s")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
