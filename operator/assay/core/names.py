"""Deterministic names: the same attempt has the same names after every restart.

A name that had to be changed to fit its alphabet or length carries a hash of the raw id, so two raw ids never
share one (cases.md BAR 9).
"""

import hashlib
import re

from assay.api.tryspec import AttemptIdentity, StorageTarget

_JOB_SLUG = 28
_PATH_SLUG = 120


def _hash(raw: str, length: int) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()[:length]


def slug(raw: str, limit: int = _PATH_SLUG) -> str:
    """A DNS-label-safe form of `raw`, at most `limit` characters, unique per raw id."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", raw.lower()).strip("-")
    if cleaned == raw and len(raw) <= limit:
        return raw
    return f"{cleaned[: limit - 11].strip('-') or 'x'}-{_hash(raw, 10)}"


def job_name(run_uid: str, ledger: str, task: str, variant: str, repetition: int, try_number: int) -> str:
    """Name of the Job of one try, a DNS label of at most 63 characters."""
    key = "\0".join((run_uid, ledger, task, variant, str(repetition)))
    readable = (
        re.sub(r"[^a-z0-9]+", "-", task.rsplit("/", 1)[-1].lower()).strip("-")[:_JOB_SLUG].strip("-")
        or "task"
    )
    return f"{readable}-{_hash(key, 20)}-r{repetition}-t{try_number}"


def try_prefix(storage: StorageTarget, identity: AttemptIdentity, pod_uid: str) -> str:
    """Key prefix of one pod's evidence, ending in a slash; below it lie `manifest.json` and its files."""
    return f"{attempt_prefix(storage, identity)}try-{identity.try_number}/{pod_uid}/"


def attempt_prefix(storage: StorageTarget, identity: AttemptIdentity) -> str:
    """Key prefix of all tries of an attempt."""
    return (
        f"{run_prefix(storage, identity.run_uid)}attempts/{slug(identity.ledger)}/{slug(identity.task)}/"
        f"{slug(identity.variant)}/r{identity.repetition}/"
    )


def run_prefix(storage: StorageTarget, run_uid: str) -> str:
    """Key prefix of everything that a run leaves."""
    return f"{storage.prefix}{run_uid}/"


def archive_key(storage: StorageTarget, archive_digest: str) -> str:
    """Key of a task archive, content-addressed."""
    return f"{storage.archive_prefix}{archive_digest.replace(':', '-')}.tar"


def journal_prefix(storage: StorageTarget, run_uid: str) -> str:
    """Key prefix of a run's journal."""
    return f"{run_prefix(storage, run_uid)}journal/"


def ledger_results_prefix(ledger_digest: str) -> str:
    """Key prefix of how the runs on a ledger ended, beside their list."""
    return f"ledgers/{ledger_digest.replace(':', '-')}/results/"


def ledger_runs_prefix(ledger_digest: str) -> str:
    """Key prefix of the list of all runs on a ledger, in the bucket of their evidence."""
    return f"ledgers/{ledger_digest.replace(':', '-')}/runs/"
