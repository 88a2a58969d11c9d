"""A namespace, a store and a gateway for all tests here; a test that harms something makes its own."""

import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from assay.adapters.s3 import S3Store
from assay.api.tryspec import ModelTarget, ProviderAPI, SecretKeyRef, TrySpec
from tests.fixtures.s3 import S3Server, bucket, mortal_s3, s3_server
from tests.gateway.harness import AttemptPod, Evals, GatewayProcess, Runner, try_spec
from tests.gateway.model_provider import KEY, Connect, Provider

__all__ = ["bucket", "mortal_s3", "s3_server"]

StartGateway = Callable[..., GatewayProcess]


@pytest.fixture(scope="session")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evals]:
    """A namespace of runs on the cluster of the current kubeconfig."""
    if "KUBECONFIG" not in os.environ:
        pytest.fail("KUBECONFIG is not set: run this inside `make cluster-shell`, as `make test` does")
    namespace = Evals(tmp_path_factory.mktemp("evals"))
    yield namespace
    namespace.delete()


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, evals: Evals, s3_server: S3Server
) -> Iterator[GatewayProcess]:
    """One gateway for all tests that do not harm it."""
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), evals, s3_server.environment).start()
    yield process
    process.kill()


@pytest.fixture
def start_gateway(tmp_path: Path, evals: Evals, s3_server: S3Server) -> Iterator[StartGateway]:
    """Starts gateways with environment variables of the test's choice; they end with the test."""
    started: list[GatewayProcess] = []

    def start(**environment: str) -> GatewayProcess:
        process = GatewayProcess(tmp_path, evals, s3_server.environment | environment)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def spec(evals: Evals, bucket: str) -> TrySpec:
    """A try without models."""
    return try_spec(evals.name, bucket)


@pytest.fixture
def pod(evals: Evals, spec: TrySpec) -> AttemptPod:
    """The pod of that try."""
    return evals.attempt(spec)


@pytest.fixture
async def runner(gateway: GatewayProcess, pod: AttemptPod) -> AsyncIterator[Runner]:
    """The runner in that pod."""
    async with Runner(gateway.url, pod.token()) as session:
        yield session


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    started = Provider()
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
def secret(evals: Evals) -> SecretKeyRef:
    """A Secret that holds the real key, with the newline that `--from-file` leaves."""
    name = f"openai-{uuid.uuid4().hex[:6]}"
    evals.secret(name, **{"api-key": KEY + "\n"})
    return SecretKeyRef(name=name, key="api-key")


@pytest.fixture
async def connect(gateway: GatewayProcess, evals: Evals, bucket: str) -> AsyncIterator[Connect]:
    """Makes runners whose variant has one model."""
    runners: list[Runner] = []

    async def make(
        endpoint: str,
        secret: SecretKeyRef | None = None,
        api: ProviderAPI = "OpenAIChat",
        gateway: GatewayProcess = gateway,
    ) -> Runner:
        model = ModelTarget(role="main", name="m", api=api, endpoint=endpoint, secret_ref=secret)
        pod = evals.attempt(try_spec(evals.name, bucket, [model]))
        runners.append(Runner(gateway.url, pod.token()))
        return runners[-1]

    yield make
    for runner in runners:
        await runner.session.close()


@pytest.fixture
def store(s3_server: S3Server) -> S3Store:
    """The evidence store, seen by somebody who may read it."""
    return s3_server.store


def keys(store: S3Store, bucket: str) -> list[str]:
    """All keys of the bucket."""
    return [info.key for info in store.list_keys(bucket, "")]


def eventually(holds: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait for a condition that another process brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(0.02)
