"""A ledger may lie in another bucket than the evidence of its runs."""

from pathlib import Path

import pytest

from assay.adapters.s3 import S3Store
from assay.api.tryspec import TrySpec
from assay.core.names import archive_key
from assay.runner.gateway_client import Deadline, GatewayClient, GatewayRefused
from tests.fixtures.s3 import S3Server, new_bucket
from tests.gateway.harness import Evals, GatewayProcess
from tests.gateway.test_evidence import sha256
from tests.gateway.test_runner_client import archive

pytestmark = pytest.mark.api


async def test_archives_are_served_from_the_ledger_s_bucket(
    gateway: GatewayProcess, evals: Evals, spec: TrySpec, store: S3Store, s3_server: S3Server, tmp_path: Path
) -> None:
    tar, published = archive(), new_bucket(s3_server)
    spec = spec.model_copy(
        update={
            "task": spec.task.model_copy(update={"archive_digest": sha256(tar)}),
            "storage": spec.storage.model_copy(update={"archive_bucket": published}),
        }
    )
    token = tmp_path / "token"
    token.write_text(evals.attempt(spec).token())
    async with GatewayClient(gateway.url, token) as client:
        with pytest.raises(GatewayRefused, match=f"s3://{published}/.*publish the ledger"):
            await client.fetch_archive(sha256(tar), tmp_path / "task.tar", Deadline(60))
        store.put_bytes(published, archive_key(spec.storage, sha256(tar)), tar)
        await client.fetch_archive(sha256(tar), tmp_path / "task.tar", Deadline(60))
    assert (tmp_path / "task.tar").read_bytes() == tar
