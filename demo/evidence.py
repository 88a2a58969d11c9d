"""Lists or copies the evidence of a run, straight from S3 and without the operator."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.adapters.s3 import S3Settings, S3Store, StorageError
from assay.api.evaluation_run import EvaluationRun
from assay.api.evidence import Manifest
from assay.api.report import Report
from demo.errors import DemoError
from demo.install import RUN_NAMESPACE
from demo.kube import RUNS, Kube
from demo.screen import Screen
from demo.target import Target, choose

_MANIFEST = "/manifest.json"
_LIMIT = 1 << 30
# Harbor writes a manifest.json of its own among the artefacts.
_OF_A_TRY = re.compile(r"/try-\d+/[0-9a-f-]{36}/manifest\.json$")


def show(name: str, fetch: Path | None) -> None:
    """Prints one line a try; with `fetch` copies every file there. Raises DemoError."""
    target, screen = choose(), Screen()
    with Kube(target.kubeconfig) as kube:
        body = kube.find(RUNS, RUN_NAMESPACE, name)
    if body is None:
        raise DemoError(f"there is no run {name}", f"kubectl -n {RUN_NAMESPACE} get evaluationruns")
    run = EvaluationRun.parse(body)
    bucket, prefix = run.spec.storage.s3.bucket, run.status.evidence_prefix or ""
    if not prefix:
        raise DemoError(f"the run {name} has not started yet")
    with _store(target.storage.environment()) as store:
        keys = [info.key for info in store.list_keys(bucket, prefix)]
        rows = [_row(store, bucket, key) for key in keys if _OF_A_TRY.search(key)]
        headings = ("task", "variant", "try", "outcome", "reward", "files", "below the prefix")
        screen.table(
            (headings, [(*row[:-1], row[-1].removeprefix(prefix)) for row in rows]), f"s3://{bucket}/{prefix}"
        )
        if fetch is not None:
            for key in keys:
                target_path = fetch / key.removeprefix(prefix)
                target_path.parent.mkdir(parents=True, exist_ok=True)
                target_path.write_bytes(store.get_bytes(bucket, key, _LIMIT))
            screen.say(f"{len(keys)} files copied to {fetch}")


def report_of(target: Target, run: EvaluationRun) -> Report | None:
    """The report of an ended run; None where the operator could make none. Raises DemoError."""
    place = run.status.report
    if place is None:
        return None
    with _store(target.storage.environment()) as store:
        return Report.model_validate_json(store.get_bytes(place.bucket, place.key, _LIMIT))


def _row(store: S3Store, bucket: str, key: str) -> tuple[str, ...]:
    manifest = Manifest.model_validate_json(store.get_bytes(bucket, key, _LIMIT))
    identity, result = manifest.identity, manifest.result
    reward = "—" if result.reward is None else f"{result.reward:g}"
    attempt = f"{identity.try_number}"
    files = str(len(manifest.files))
    return (
        identity.task,
        identity.variant,
        attempt,
        result.outcome,
        reward,
        files,
        key.removesuffix(_MANIFEST),
    )


@contextmanager
def _store(environment: dict[str, str]) -> Iterator[S3Store]:
    store = S3Store(S3Settings.from_env(environment))
    try:
        yield store
    except StorageError as error:
        raise DemoError(f"the evidence cannot be read: {error}") from None
    finally:
        store.close()
