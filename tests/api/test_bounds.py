"""Bad input is refused by the API server, and what is left out gets the documented default."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.api import samples
from tests.api.conftest import Api, Object, RefusedError, kubectl, merged

Path = tuple[str | int, ...]

BAD_RUNS: list[tuple[Path, Any, str]] = [
    (("ledgers",), [], "at least 1 item"),
    (("ledgers",), None, "Required value"),
    (("ledgers",), [{"name": f"l{n}"} for n in range(21)], "at most 20 items"),
    (("ledgers",), [{"name": "one"}, {"name": "one"}], "Duplicate value"),
    (("ledgers",), [{"name": "Not-A-Name"}], "should match"),
    (("ledgers",), [{"name": "n" * 64}], "may not be more than 63"),
    (("variants",), [], "at least 1 item"),
    (("variants",), [{"name": f"v{n}"} for n in range(51)], "at most 50 items"),
    (("baseline",), {"name": "somebody"}, "baseline must be one of variants"),
    (("repetitions",), 0, "greater than or equal to 1"),
    (("repetitions",), 101, "less than or equal to 100"),
    (("parallelism",), 0, "greater than or equal to 1"),
    (("parallelism",), 501, "less than or equal to 500"),
    (("budget", "usd"), "-1", "should match"),
    (("budget", "usd"), "1e3", "should match"),
    (("budget", "usd"), 500, "must be of type string"),
    (("retryLimits", "infrastructure"), -1, "greater than or equal to 0"),
    (("retryLimits", "disruption"), 101, "less than or equal to 100"),
    (("deadlines", "agentSeconds"), 0, "greater than or equal to 1"),
    (("deadlines", "pendingSeconds"), 604801, "less than or equal to 604800"),
    (("placement", "tolerations"), [{"operator": "In"}], "Unsupported value"),
    (("placement", "nodeSelector"), {"k" * 318: "v"}, "keys must be names"),
    (("storage",), None, "Required value"),
    (("storage", "s3", "bucket"), "No_Bucket", "should match"),
    (("storage", "s3", "prefix"), "runs", "should match"),
    (("storage", "s3", "prefix"), "/runs/", "should match"),
    (("minCoveragePercent",), 101, "less than or equal to 100"),
    (("suspend",), "yes", "must be of type boolean"),
    (("retry", "unscoredOnly"), -1, "greater than or equal to 0"),
    (("ttlSecondsAfterFinished",), -1, "greater than or equal to 0"),
    (("reuse", "runs"), [], "at least 1 item"),
]

BAD_VARIANTS: list[tuple[Path, Any, str]] = [
    (("agent",), None, "Required value"),
    (("agent", "name"), "", "at least 1 chars"),
    (("agent", "bundleImage"), "registry.example/image:latest", "should match"),
    (("agent", "arguments"), {"not a name": "1"}, "keys must be names"),
    (("agent", "arguments"), {"turns": 50}, "must be of type string"),
    (("agent", "arguments"), {f"a{n}": "1" for n in range(33)}, "at most 32"),
    (("agent", "environment"), [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "Duplicate"),
    (("agent", "environment"), [{"name": "1A", "value": "1"}], "should match"),
    (("models", 0, "role"), "subagent", "exactly one of role main"),
    (("models", 0, "role"), "boss", "Unsupported value"),
    (("models", 0, "provider", "endpoint"), "api.example", "should match"),
    (("models", 0, "provider", "api"), "Other", "Unsupported value"),
]

BAD_LEDGERS: list[tuple[Path, Any, str]] = [
    (("benchmark", "name"), "", "at least 1 chars"),
    (("benchmark", "version"), 1.1, "must be of type string"),
    (("digest",), "sha256:abc", "should match"),
    (("digest",), "sha256:" + "A" * 64, "should match"),
    (("digest",), None, "Required value"),
    (("source",), {}, "exactly one of s3 and configMap"),
    (("source", "configMap"), {"name": "too"}, "exactly one of s3 and configMap"),
    (("source", "s3", "key"), "/absolute", "should match"),
    (("source", "s3", "key"), "a/../b//c", "should match"),
    (("harness", "commit"), "main", "should match"),
    (("harness", "runnerImage"), "registry.example/runner:1", "should match"),
]


def _refused(api: Api, plural: str, body: Object, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        api.create(plural, body)


@pytest.mark.parametrize(("path", "value", "message"), BAD_RUNS)
def test_bad_runs(api: Api, path: Path, value: Any, message: str) -> None:
    _refused(api, "evaluationruns", merged(samples.run(), "spec", *path, value=value), message)


@pytest.mark.parametrize(("path", "value", "message"), BAD_VARIANTS)
def test_bad_variants(api: Api, path: Path, value: Any, message: str) -> None:
    _refused(api, "agentvariants", merged(samples.variant(), "spec", *path, value=value), message)


@pytest.mark.parametrize(("path", "value", "message"), BAD_LEDGERS)
def test_bad_ledgers(api: Api, path: Path, value: Any, message: str) -> None:
    _refused(api, "ledgers", merged(samples.ledger(), "spec", *path, value=value), message)


def test_a_run_has_at_most_a_hundred_pairs(api: Api) -> None:
    body = merged(samples.run(), "spec", "baseline", value=None)
    body["spec"]["ledgers"] = [{"name": f"l{n}"} for n in range(20)]
    body["spec"]["variants"] = [{"name": f"v{n}"} for n in range(5)]
    api.create("evaluationruns", body)
    body["spec"]["variants"].append({"name": "v5"})
    body["metadata"]["name"] += "-more"
    _refused(api, "evaluationruns", body, "ledgers times variants must be at most 100; split the run")


@pytest.mark.parametrize(
    ("plural", "sample"),
    [("ledgers", samples.ledger), ("agentvariants", samples.variant), ("evaluationruns", samples.run)],
)
def test_names_fit_a_label(api: Api, plural: str, sample: Callable[[], Object]) -> None:
    body = sample()
    body["metadata"]["name"] = "n" * 64
    _refused(api, plural, body, "metadata.name must have at most 63 characters")
    body["metadata"]["name"] = "n" * 63
    api.create(plural, body)
    api.delete(plural, "n" * 63)


def test_defaults_of_a_run(api: Api) -> None:
    made = api.create(
        "evaluationruns",
        merged(
            samples.run(),
            "spec",
            value={
                "ledgers": [{"name": "one"}],
                "variants": [{"name": "nop"}],
                "storage": {"s3": {"bucket": "evidence"}},
            },
        ),
    )
    assert made["spec"] == {
        "ledgers": [{"name": "one"}],
        "variants": [{"name": "nop"}],
        "storage": {"s3": {"bucket": "evidence", "prefix": "runs/"}},
        "parallelism": 10,
        "minCoveragePercent": 100,
        "suspend": False,
        "suspendPolicy": "Drain",
    }


def test_defaults_of_a_ledger_in_a_config_map(api: Api) -> None:
    made = api.create(
        "ledgers", merged(samples.ledger(), "spec", "source", value={"configMap": {"name": "small"}})
    )
    assert made["spec"]["source"]["configMap"]["key"] == "ledger.jsonl"


def test_a_zero_stays_a_zero(api: Api) -> None:
    body = merged(samples.run(), "spec", "retryLimits", value={"infrastructure": 0})
    made = api.create("evaluationruns", body)
    assert made["spec"]["retryLimits"] == {"infrastructure": 0}


def test_a_misspelt_field_is_refused_by_kubectl(api: Api) -> None:
    body = merged(samples.run(), "spec", "paralelism", value=5)
    done = subprocess.run(
        ["kubectl", "create", "-n", api.namespace, "-f", "-"],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert 'unknown field "spec.paralelism"' in done.stderr
    assert (
        kubectl("get", "evaluationruns", "-n", api.namespace, "--ignore-not-found", body["metadata"]["name"])
        == ""
    )
