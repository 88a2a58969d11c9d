"""Names of demonstration runs, and which one is followed further."""

from typing import Any, cast

from demo.kube import Kube
from demo.runs import named, next_name, unfinished


class FakeKube:
    """A namespace that holds these runs."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        self._runs = runs

    def items(self, *_: object) -> list[dict[str, Any]]:
        return list(self._runs)


def kube(*runs: dict[str, Any]) -> Kube:
    return cast(Kube, FakeKube(*runs))


def run(name: str, ledger: str = "examples-1", ended: str | None = None) -> dict[str, Any]:
    condition = {
        "type": ended,
        "status": "True",
        "reason": "AllRecorded",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "metadata": {"name": name, "namespace": "evals"},
        "spec": {
            "ledgers": [{"name": ledger}],
            "variants": [{"name": "oracle"}],
            "storage": {"s3": {"bucket": "evidence"}},
        },
        "status": {"conditions": [condition] if ended else []},
    }


def test_each_demonstration_has_the_next_number() -> None:
    assert next_name(kube(), "evals") == "demo-1"
    assert (
        next_name(kube(run("demo-2"), run("demo-10"), run("demo-x"), run("other-99")), "evals") == "demo-11"
    )


def test_an_interrupted_demonstration_is_followed_further() -> None:
    runs = kube(run("demo-9"), run("demo-10"), run("demo-11", ended="Complete"), run("other"))
    assert unfinished(runs, "evals", "examples-1") == "demo-10"


def test_a_run_on_another_ledger_is_another_demonstration() -> None:
    assert unfinished(kube(run("demo-1", ledger="examples-0")), "evals", "examples-1") is None


def test_the_example_is_renamed_and_keeps_the_rest() -> None:
    example = run("demo")
    made = named(example, "demo-3", "examples-7", {"parallelism": 4})
    assert made["metadata"] == {"name": "demo-3", "namespace": "evals"}
    assert made["spec"]["ledgers"] == [{"name": "examples-7"}]
    assert (made["spec"]["variants"], made["spec"]["parallelism"]) == ([{"name": "oracle"}], 4)
    assert example["metadata"]["name"] == "demo"
