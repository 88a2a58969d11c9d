"""One installation for all end-to-end tests, by the steps that docs/install.md tells a user."""

from collections.abc import Iterator

import pytest

from demo import kube as demo_kube
from demo import target as targets
from demo.errors import DemoError
from demo.install import RUN_NAMESPACE, install
from demo.kube import Kube
from demo.target import Target
from tests.e2e import diagnostics
from tests.e2e.bench import OPEN_NAMESPACE, RESTRICTED_NAMESPACE, Bench

NAMESPACES = (RUN_NAMESPACE, RESTRICTED_NAMESPACE, OPEN_NAMESPACE)

_gathered: set[str] = set()


@pytest.fixture(scope="session")
def target() -> Target:
    try:
        return targets.choose()
    except DemoError as error:
        pytest.fail(
            f"end-to-end tests need a cluster: make cluster-up images, then "
            f"`python -m localcluster shell -- pytest tests/e2e` ({error})",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def kube(target: Target) -> Iterator[Kube]:
    with Kube(target.kubeconfig) as connection:
        yield connection


@pytest.fixture(scope="session")
def bench(target: Target, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Assay, installed and ready."""
    install(target, NAMESPACES)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kube.patch(demo_kube.NAMESPACES, None, RESTRICTED_NAMESPACE, {"metadata": {"labels": labels}})
    made = Bench.on(target, kube, tmp_path_factory.mktemp("e2e"))
    yield made
    made.store.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    # A module's fixture that failed fails each of its tests: once is enough.
    if report.failed and item.path.parent.name == "e2e" and item.path.name not in _gathered:
        _gathered.add(item.path.name)
        report.sections.append(("cluster", diagnostics.saved(item.name)))
