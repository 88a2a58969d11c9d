"""Reads the result folder of a Harbor job: one subfolder for each trial."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.harbor_import import HarborImportError, Trial, read_trial

RESULT = "result.json"
_LARGEST = 64 << 20


def unfinished_trials(job: Path) -> list[Path]:
    """Trial folders without a result: the trial did not end."""
    return [folder for folder in _folders(job) if not (folder / RESULT).is_file()]


def read_job(job: Path) -> Iterator[Trial]:
    """Every trial that ended, by the name of its folder. Raises HarborImportError, OSError."""
    folders = _folders(job)
    if not folders:
        raise HarborImportError(
            f"{job}: no trial in this folder; give a job's own folder, e.g. jobs/2026-11-30__12-00-00"
        )
    version = _harbor_version(job)
    for folder in folders:
        path = folder / RESULT
        if path.is_file():
            yield Trial(
                place=str(path),
                result=read_trial(_bytes(path), str(path)),
                judge_figures=_optional(folder / "verifier" / "evaluation_results.json"),
                task_digest=_task_digest(folder),
                harbor_version=version,
            )


def _folders(job: Path) -> list[Path]:
    """A trial's folder has the trial's configuration; other folders, those of jobs too, have none or
    another."""
    return sorted(one for one in job.iterdir() if "trial_name" in (_optional(one / "config.json") or {}))


def _bytes(path: Path) -> bytes:
    if (size := path.stat().st_size) > _LARGEST:
        raise HarborImportError(f"{path}: has {size} bytes; at most {_LARGEST} are read")
    return path.read_bytes()


def _optional(path: Path) -> dict[str, Any] | None:
    """A document that need not be there; one that is there must be readable."""
    if not path.is_file():
        return None
    try:
        found = json.loads(_bytes(path))
    except ValueError as error:
        raise HarborImportError(f"{path}: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HarborImportError(f"{path}: is no JSON object")
    return found


def _task_digest(folder: Path) -> str | None:
    task = (_optional(folder / "lock.json") or {}).get("task")
    digest = task.get("digest") if isinstance(task, dict) else None
    return digest if isinstance(digest, str) else None


def _harbor_version(job: Path) -> str | None:
    harbor = (_optional(job / "lock.json") or {}).get("harbor")
    version = harbor.get("version") if isinstance(harbor, dict) else None
    return version if isinstance(version, str) else None
