"""`assay logs`: what the containers of a try wrote, live or from the evidence."""

import asyncio
import sys
from enum import StrEnum
from typing import Annotated

import typer

from assay.adapters.kube import KubeRefused
from assay.api.labels import ATTEMPT, RUN_UID, TRY_NUMBER
from assay.cli.cluster import Cluster, Context, Kubeconfig, Namespace, with_cluster
from assay.cli.output import InputError
from assay.cli.run_evidence import (
    Endpoint,
    LedgerName,
    Repetition,
    RunEvidence,
    Task,
    TryNumber,
    Variant,
    chosen_try,
    find_attempt,
    open_store,
)
from assay.cli.run_plan import plan_of
from assay.cli.run_views import RunName
from assay.core.record import AttemptKey
from assay.core.terminal_text import printable


class Part(StrEnum):
    """Whose log is meant."""

    RUNNER = "runner"
    AGENT = "agent"
    VERIFIER = "verifier"


_FILES = {
    Part.RUNNER: ("runner.log",),
    Part.AGENT: ("trial/agent/",),
    Part.VERIFIER: ("trial/verifier/",),
}
"""Paths in the evidence; one that ends in a slash stands for all text files below it."""
_TEXT = (".txt", ".log", ".pane", ".json", ".jsonl", ".md", ".xml")


def logs(
    run: RunName,
    task: Task,
    variant: Variant,
    part: Annotated[Part, typer.Option("--of", help="Whose log.")] = Part.RUNNER,
    number: TryNumber = None,
    ledger: LedgerName = None,
    repetition: Repetition = 0,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    endpoint: Endpoint = None,
) -> None:
    """Print the log of a try: from its pod while it is live, from its evidence in S3 afterwards.

    The agent's and the verifier's logs are in the evidence alone. What they hold is not trusted: control
    characters are shown as \\\\uXXXX.

    Example:

        kubectl assay logs nightly count-requests terminus-2 --of verifier
    """

    async def read(cluster: Cluster) -> str:
        found = await cluster.run(run)
        async with open_store(endpoint) as store:
            plan = await plan_of(cluster, store, found)
            key = find_attempt(plan.attempts, task, variant, ledger, repetition)
            if part is Part.RUNNER:
                live = await _live_log(cluster, found.metadata.uid, key, number)
                if live is not None:
                    return live
            evidence = RunEvidence(store, found)
            recorded = sorted(
                (one for one in await evidence.records() if one.key == key), key=lambda one: one.try_number
            )
            if not recorded:
                raise InputError(f"no try of {key.task} has been recorded yet; a live one has --of runner")
            record = chosen_try(recorded, number)
            manifest = await evidence.manifest(record)
            paths = [one.path for one in manifest.files if _wanted(one.path, part)]
            if not paths:
                raise InputError(
                    f"try {record.try_number} left no log of its {part.value}; all that it left lies below "
                    f"s3://{evidence.bucket}/{evidence.prefix_of(record)}"
                )
            contents = await asyncio.gather(*(evidence.file(record, path) for path in paths))
            return "".join(
                (f"==> {path} <==\n" if len(paths) > 1 else "") + _text(content or b"")
                for path, content in zip(paths, contents, strict=True)
            )

    sys.stdout.write(with_cluster(read, namespace, context, kubeconfig))


async def _live_log(cluster: Cluster, run_uid: str, key: AttemptKey, number: int | None) -> str | None:
    """The runner's log of a live pod of the attempt; None where there is none."""
    base = f"/api/v1/namespaces/{cluster.namespace}/pods"
    listed = await cluster.client.get(base, {"labelSelector": f"{RUN_UID}={run_uid}"})
    for pod in listed["items"]:
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get(ATTEMPT) != str(key) or number not in (None, _number(annotations)):
            continue
        try:
            path = f"{base}/{pod['metadata']['name']}/log"
            return _text(await cluster.client.request("GET", path, parameters={"container": "runner"}))
        except KubeRefused:
            # Not started yet, or gone meanwhile: the evidence says more.
            continue
    return None


def _number(annotations: dict[str, str]) -> int | None:
    text = annotations.get(TRY_NUMBER, "")
    return int(text) if text.isdecimal() else None


def _wanted(path: str, part: Part) -> bool:
    return any(
        path.startswith(one) and path.endswith(_TEXT) if one.endswith("/") else path == one
        for one in _FILES[part]
    )


def _text(content: bytes) -> str:
    text = printable(content.decode(errors="replace"))
    return text if not text or text.endswith("\n") else f"{text}\n"
