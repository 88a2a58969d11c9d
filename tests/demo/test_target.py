"""Which cluster the demonstration chooses, and what it says when something is missing."""

import pytest

from demo.errors import DemoError
from demo.target import choose

COMPLETE = {
    "CLUSTER": "current",
    "REGISTRY": "registry.example/assay/",
    "ASSAY_S3_BUCKET": "evidence",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


def test_an_unknown_cluster_is_named() -> None:
    with pytest.raises(DemoError, match=r"CLUSTER is 'mine'(.|\n)*local or current"):
        choose({"CLUSTER": "mine"})


@pytest.mark.parametrize("missing", sorted(COMPLETE.keys() - {"CLUSTER"}))
def test_what_a_current_cluster_lacks_is_named_with_its_meaning(missing: str) -> None:
    with pytest.raises(DemoError, match=rf"needs {missing} \(") as refusal:
        choose({name: value for name, value in COMPLETE.items() if name != missing})
    assert "docs/install.md" in str(refusal.value)


def test_images_of_a_current_cluster_come_from_its_registry() -> None:
    target = choose(COMPLETE)
    assert target.image("assay.test/operator@sha256:0") == "registry.example/assay/operator@sha256:0"
    assert target.image("docker.io/library/debian@sha256:0") == "docker.io/library/debian@sha256:0"
    assert target.image_rewrites() == [{"from": "assay.test/", "to": "registry.example/assay/"}]


def test_storage_is_reached_under_two_addresses_where_they_differ() -> None:
    given = {"ASSAY_S3_ENDPOINT": "http://s3.storage:9000", "ASSAY_S3_ENDPOINT_HERE": "http://localhost:9000"}
    storage = choose(COMPLETE | given).storage
    assert storage.endpoint == "http://s3.storage:9000"
    assert storage.environment()["ASSAY_S3_ENDPOINT"] == "http://localhost:9000"
