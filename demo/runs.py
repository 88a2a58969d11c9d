"""Names of demonstration runs, and following one until it ends."""

import re
from collections.abc import Mapping
from typing import Any

from assay.api.evaluation_run import EvaluationRun
from assay.core.run_story import doing, ended, stopped
from demo.errors import DemoError
from demo.kube import RUNS, Kube
from demo.screen import Screen

_STEM = "demo"


def next_name(kube: Kube, namespace: str) -> str:
    """`demo-1`, `demo-2`, …: a finished run never changes, so each demonstration makes a new one."""
    taken = [run["metadata"]["name"] for run in kube.items(RUNS, namespace)]
    numbers = [int(found[1]) for name in taken if (found := re.fullmatch(rf"{_STEM}-(\d+)", name))]
    return f"{_STEM}-{max(numbers, default=0) + 1}"


def unfinished(kube: Kube, namespace: str, ledger: str) -> str | None:
    """The newest demonstration run on this ledger that still goes on: one whose watcher was interrupted."""
    runs = [EvaluationRun.parse(body) for body in kube.items(RUNS, namespace)]
    going = [
        run.metadata.name
        for run in runs
        if run.metadata.name.startswith(f"{_STEM}-")
        and [item.name for item in run.spec.ledgers] == [ledger]
        and not (ended(run) or stopped(run) or run.metadata.deletion_timestamp)
    ]
    return max(going, key=lambda name: (len(name), name), default=None)


def named(manifest: Mapping[str, Any], name: str, ledger: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The example's EvaluationRun under another name, on this ledger, with `spec` laid over its own."""
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "name": name},
        "spec": {**manifest["spec"], "ledgers": [{"name": ledger}], **spec},
    }


def follow(kube: Kube, namespace: str, name: str, screen: Screen, seconds: float) -> EvaluationRun:
    """Shows each change until the run has ended. Raises DemoError when it stops, or takes too long."""
    look = f"kubectl -n {namespace} describe evaluationrun {name}"
    for body in kube.changes(RUNS, namespace, seconds=seconds, name=name):
        if body is None:
            raise DemoError(f"the run {name} was deleted")
        run = EvaluationRun.parse(body)
        screen.progress(run)
        if ended(run):
            return run
        if stopped(run):
            raise DemoError(f"the run {name} was suspended: {doing(run)}", look)
    raise DemoError(f"the run {name} has not ended after {seconds / 60:.0f} minutes", look)
