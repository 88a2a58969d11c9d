"""The operator as a process of its own, on a real API server and a real S3 server.

The pods only look as if they ran: no node is needed, and on a cluster with nodes none takes them.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import _connection, _kinds  # noqa: F401  fixtures
from tests.fixtures.s3 import S3Server, bucket, running  # noqa: F401  fixtures
from tests.operator_kit.cluster import Cluster, until
from tests.operator_kit.process import (
    ASSAY_IMAGE,
    ROOT,
    UNSCHEDULABLE,
    Operator,
    Wishes,
    fresh_namespace,
)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("operator-s3") / "shared") as server:
        yield server


@pytest.fixture
async def cluster(_kinds: None, s3: S3Server) -> AsyncIterator[Cluster]:  # noqa: F811
    """A namespace of its own with what the chart would put there, and an empty bucket."""
    async with fresh_namespace(s3) as made:
        yield made


@pytest.fixture
async def operator(cluster: Cluster, s3: S3Server, tmp_path: Path) -> AsyncIterator[Operator]:
    made = Operator(cluster, s3, tmp_path / "operator.log")
    yield made
    await made.end()
    if made.log.exists():
        # Shown by pytest where the test failed.
        print(made.log.read_text()[-20_000:])


@pytest.fixture
def wishes(cluster: Cluster) -> Wishes:
    return Wishes(cluster)


__all__ = ["ASSAY_IMAGE", "ROOT", "UNSCHEDULABLE", "Operator", "Wishes", "until"]
