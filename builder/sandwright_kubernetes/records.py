"""Records of runs with a Job in a cluster: a file for each, written before the Job, removed after it.

The file of a killed run identifies its leftovers in a cluster. It is in the cache, because a Job survives a
reboot of this machine. Jobs have the session and the owner as labels; the owner is a random name for this
user of this machine.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from sandwright import user_dirs
from sandwright.documents.record import decode_record, encode_record
from sandwright.signalling import ProcessIdentity, liveness
from sandwright_kubernetes.connection import Place

SESSION = "sandwright.session"
OWNER = "sandwright.owner"
"""Labels of Jobs and Pods."""


@dataclass(frozen=True)
class JobRecord:
    """One run's Job, the cluster it is in, and the process that watches it."""

    session: str
    job: str
    namespace: str
    kubeconfig: str
    context: str
    process: ProcessIdentity
    """The launcher that watches the Job."""

    @property
    def cluster(self) -> Place:
        """The cluster."""
        return Place(self.kubeconfig, self.context)

    @property
    def is_stale(self) -> bool:
        """Whether the launcher has surely ended, so that it can't remove the Job."""
        return liveness(self.process) == "ended"

    def write(self) -> None:
        """Raise HostError."""
        user_dirs.write(str(clusters_directory() / f"{self.job}.json"), encode_record(self))

    def forget(self) -> None:
        """The Job is gone."""
        (clusters_directory() / f"{self.job}.json").unlink(missing_ok=True)


def read_job_records() -> list[JobRecord]:
    """The existing records. Other files are left alone."""
    found = []
    for path in sorted(clusters_directory().glob("*.json")):
        try:
            record = decode_record(JobRecord, path.read_bytes())
        except (OSError, ValueError):
            continue
        if path.stem == record.job:
            found.append(record)
    return found


def owner() -> str:
    """The name of this user of this machine in clusters: 16 hexadecimal digits, made once."""
    path = clusters_directory() / "owner"
    if not path.exists():
        user_dirs.write(str(path), secrets.token_hex(8).encode())
    return path.read_text().strip()


def clusters_directory(name: str = "") -> Path:
    """This user's directory of records about clusters, or a directory in it; made if there is none."""
    base = user_dirs.private(f"{user_dirs.cache()}/clusters")
    return Path(user_dirs.private(f"{base}/{name}") if name else base)
