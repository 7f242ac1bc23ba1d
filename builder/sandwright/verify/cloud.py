"""Proves `credentials.cloud`: planted accounts can be read but not written, and are hidden without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.policy.facts import HostFacts
from sandwright.policy.live_entries import observe
from sandwright.policy.path_resolver import GOOGLE_KEY
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.catalogue.files import reads_plain
from sandwright.verify.fixture import Fixture
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

ACCOUNTS = (
    ".aws/credentials",
    ".config/gcloud/application_default_credentials.json",
    ".azure/msal_token_cache.json",
)
"""A file of each account that `credentials.cloud` knows, below the home."""

KEY = "keys/google.json"
"""The file that GOOGLE_APPLICATION_CREDENTIALS names."""

CLUSTER = ".kube/config"
"""A file that is readable only if a policy lists it."""


@dataclass(frozen=True)
class Home:
    """A planted home. `word` is in each of its secrets, `plain` in files that every user may read."""

    path: Path
    word: str

    def seen(self, facts: HostFacts) -> HostFacts:
        """The facts of a host with this home."""
        named = (*ACCOUNTS, KEY, CLUSTER)
        moved = replace(
            facts,
            home=str(self.path),
            environment={**facts.environment, GOOGLE_KEY: str(self.path / KEY)},
        )
        return observe(moved, [str(self.path / name) for name in named])


def plant_home(fixture: Fixture) -> Home:
    """Create the home."""
    made = Home(fixture.root / "home", fixture.word)
    for name in (*ACCOUNTS, KEY, CLUSTER):
        (made.path / name).parent.mkdir(parents=True, exist_ok=True)
        (made.path / name).write_text(f"account {fixture.word}\n", encoding="ascii")
    (made.path / "plain").write_text(fixture.plain, encoding="ascii")
    return made


def cloud_cases(
    planted_home: Home,
) -> Iterator[tuple[str, tuple[Path, ...], Callable[[ProofSubject, Home], Sequence[Probe]]]]:
    """The cases: a value of `credentials.cloud`, further readable paths, and the probes."""
    yield "readonly", (planted_home.path / CLUSTER,), cloud_readable_probes
    yield "none", (planted_home.path,), cloud_denied_probes


def cloud_readable_probes(subject: ProofSubject, planted_home: Home) -> Sequence[Probe]:
    """The probes for `cloud: readonly`, with the configuration of a cluster listed."""
    return [
        _probe(
            "cloud",
            "with credentials.cloud: readonly accounts are read and not written:"
            f" {', '.join(_credential_names())}",
            *_read_steps(planted_home, (*ACCOUNTS, KEY)),
            controls=(reads_plain(subject.fixture),),
        ),
        _probe(
            "cluster",
            f"a policy that lists {CLUSTER} opens it for reading",
            *_read_steps(planted_home, (CLUSTER,)),
            controls=(reads_plain(subject.fixture),),
        ),
    ]


def cloud_denied_probes(subject: ProofSubject, planted_home: Home) -> Sequence[Probe]:
    """The probes for `cloud: none`, the default."""
    own_home = subject.policy.filesystem.home != "host"  # then nothing of this one is there
    plain = ProbeStep(
        attempt("read", planted_home.path / "plain"), "works", value=subject.fixture.plain.encode()
    )
    word, cluster = planted_home.word.encode(), str(planted_home.path / CLUSTER)
    hidden = (*ACCOUNTS, *(() if subject.policy.is_path_readable(cluster) else (CLUSTER,)))
    return [
        _probe(
            "cloud-off",
            f"by default no account is there: {', '.join((*hidden, KEY))}",
            *(
                ProbeStep(attempt("read", planted_home.path / name), "cloud.hidden", lacks=(word,))
                for name in hidden
            ),
            ProbeStep(
                attempt("read", planted_home.path / KEY),
                "cloud.hidden" if own_home else "cloud.hidden.file",
                lacks=(word,),
            ),
            controls=(reads_plain(subject.fixture) if own_home else plain,),
        )
    ]


def _read_steps(planted_home: Home, names: Sequence[str]) -> Iterator[ProbeStep]:
    for name in names:
        yield ProbeStep(
            attempt("read", planted_home.path / name),
            "cloud.read",
            holds=planted_home.word.encode(),
            private=True,
        )
        yield step("cloud.write", "write", planted_home.path / name, "changed")


def _credential_names() -> Iterator[str]:
    yield from ACCOUNTS
    yield f"the target of {GOOGLE_KEY}"


def _probe(name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...]) -> Probe:
    return Probe(f"secrets/{name}", Family.SECRETS, about, steps, controls)
