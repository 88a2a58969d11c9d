"""The manifest that a runner would have written, in the runner's own format (`api.evidence`)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from assay.api.evidence import EvidenceFile, HarnessVersion, Manifest, PhaseSeconds, TokenCounts, TryResult
from assay.api.outcome import OutcomeClass
from assay.api.tryspec import TrySpec
from assay.core.canonical import canonical_json
from assay.core.manifest import MANIFEST_NAME
from assay.core.names import try_prefix


def manifest_object(
    spec: TrySpec,
    pod_uid: str,
    outcome: OutcomeClass,
    reward: float | None,
    files: Sequence[EvidenceFile] = (),
    **result: Any,
) -> tuple[str, bytes]:
    """Key and bytes of the manifest of the try that `spec` describes, with changes to its result."""
    now = datetime.now(UTC)
    figures: dict[str, Any] = {
        "outcome": outcome,
        "reward": reward,
        "started_at": now,
        "finished_at": now,
        "seconds": PhaseSeconds(agent=1.0),
        "tokens": TokenCounts(input=100, output=10),
        "harness": HarnessVersion(harbor="0.26.0", assay="0.1.0"),
    }
    manifest = Manifest(
        identity=spec.identity,
        pod_uid=pod_uid,
        ledger_digest=spec.ledger_digest,
        variant_fingerprint=spec.variant_fingerprint,
        archive_digest=spec.task.archive_digest,
        files=list(files),
        result=TryResult(**figures | result),
        verify_only=spec.verify_only,
    )
    key = try_prefix(spec.storage, spec.identity, pod_uid) + MANIFEST_NAME
    return key, canonical_json(manifest)
