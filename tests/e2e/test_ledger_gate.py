"""The gate on a real cluster and a real S3 server: a ledger that is not the frozen one starts nothing."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.adapters.ledger_store import ARCHIVE_PREFIX, archive_name
from assay.core.ledger import parse_ledger
from assay.core.runner_image import PIN_IN_IMAGE
from demo.commands import apply
from demo.commands import run as run_command
from demo.install import RUN_NAMESPACE
from demo.kube import LEDGERS, has_condition
from demo.materials import assay
from localcluster import connect
from tests.e2e.bench import SECONDS, Bench, RunHandle, build_file, unique
from tests.e2e.tasks import LEAVE_ANSWER, Task
from tests.e2e.trouble import wait_container

_LIMIT = 64 << 20
MARKER = "the agent must not have run"


@pytest.fixture(scope="module")
def oracle(bench: Bench) -> str:
    return bench.variant("oracle")


def ledger_at(bench: Bench, name: str) -> tuple[str, bytes]:
    """Key and bytes of a published ledger."""
    key = bench.manifests[name]["spec"]["source"]["s3"]["key"]
    return key, bench.store.get_bytes(bench.bucket, key, _LIMIT)


def archive_of(bench: Bench, name: str) -> tuple[str, bytes]:
    """Key and bytes of the archive of a ledger's first task."""
    (task, *_) = parse_ledger(ledger_at(bench, name)[1]).tasks
    key = f"{ARCHIVE_PREFIX}{archive_name(task.archive_digest)}"
    return key, bench.store.get_bytes(bench.bucket, key, _LIMIT)


def one_byte_changed(content: bytes, of: bytes) -> bytes:
    """The content with one bit of the first byte of `of` turned."""
    place = content.index(of)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def without_executable_bits(archive: bytes) -> bytes:
    """The same files with modes 0644, all else being equal."""
    output = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=output, mode="w") as target,
    ):
        for member in source:
            if member.isfile():
                member.mode = 0o644
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return output.getvalue()


def refused_with_both_digests(bench: Bench, ledger: str, run: RunHandle) -> None:
    """Ledger and run say which digest was found and which was frozen."""
    found = bench.kube.wait(
        LEDGERS,
        RUN_NAMESPACE,
        ledger,
        has_condition("Verified", "False", "DigestMismatch"),
        what="Verified=False",
        seconds=SECONDS,
    )
    message = run.wait_for("LedgersVerified", "False", "DigestMismatch")["message"]
    assert bench.manifests[ledger]["spec"]["digest"] in message
    assert found["status"]["observedDigest"] in message


def test_one_byte_of_the_ledger_changed_starts_no_job(bench: Bench, oracle: str) -> None:
    ledger = bench.ledger(Task("forged"), applied=False)
    key, content = ledger_at(bench, ledger)
    bench.store.put_bytes(bench.bucket, key, one_byte_changed(content, b"reward"))
    apply([bench.manifests[ledger]])
    run = bench.run(ledger, oracle)
    refused_with_both_digests(bench, ledger, run)
    assert run.jobs() == []

    bench.store.put_bytes(bench.bucket, key, content)
    assert run.completed().status.vector[0].score_strict == "1"


@pytest.mark.parametrize(
    "forge",
    [lambda content: one_byte_changed(content, b"Write an answer"), without_executable_bits],
    ids=["one byte", "an executable bit"],
)
def test_a_task_archive_changed_after_the_run_began_stops_the_run(
    bench: Bench, oracle: str, forge: Callable[[bytes], bytes]
) -> None:
    """One try follows the other: the first is scored on the frozen bytes, a later one stops the run."""
    ledger = bench.ledger(Task("swapped", solve=f"sleep 4\n{LEAVE_ANSWER}"))
    key, content = archive_of(bench, ledger)
    run = bench.run(ledger, oracle, repetitions=5, parallelism=1)
    bench.until(lambda: run.now().status.attempts.recorded >= 1, "an attempt is scored", SECONDS)
    bench.store.put_bytes(bench.bucket, key, forge(content))
    stopped = run.wait_for("Suspended", "True", "LedgerMismatch")
    assert "digest" in stopped["message"]
    # A condition is written at once, figures a little later.
    bench.until(lambda: bool(run.now().status.recent_failures), "the failure is listed", SECONDS)
    ended = run.now()
    assert 1 <= ended.status.attempts.recorded < 5
    assert {one.outcome for one in ended.status.recent_failures} == {"LedgerMismatch"}
    bench.store.put_bytes(bench.bucket, key, content)


def test_a_ledger_replaced_before_the_end_is_not_published(bench: Bench, oracle: str) -> None:
    other = bench.ledger(Task("other"), applied=False)
    ledger = bench.ledger(Task("replaced", solve=f"sleep 8\n{LEAVE_ANSWER}"))
    run = bench.run(ledger, oracle)
    wait_container(bench, run, "environment")
    key, content = ledger_at(bench, ledger)
    bench.store.put_bytes(bench.bucket, key, ledger_at(bench, other)[1])
    refused_with_both_digests(bench, ledger, run)
    ended = {one.type: one.status for one in run.now().status.conditions}
    assert ended["Complete"] == "False"
    assert ended["Publishable"] == "False"

    bench.store.put_bytes(bench.bucket, key, content)
    assert run.completed().status.vector[0].tries == 1


def pinned_runner(bench: Bench, scratch: Path, pinned: str) -> str:
    """A runner image with the pin of a ledger, of the file that `assay ledger runner-image` writes."""
    base = bench.images["runner"]
    _, content = ledger_at(bench, pinned)
    (scratch / "ledger.jsonl").write_bytes(content)
    arguments = ("ledger", "runner-image", str(scratch / "ledger.jsonl"), "--from", base)
    assay(bench.target.storage, *arguments, "--output", str(scratch / "image"))
    layer = scratch / "pin.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(scratch / "image/ledger.pin", PIN_IN_IMAGE.lstrip("/"))
    facts = connect().facts.registry
    assert facts is not None
    registry = facts.address
    name, _, digest = base.partition("/")[2].partition("@")
    reference = f"{registry}/benchmarks/{pinned}:1"
    below = f"{registry}/{name.partition(':')[0]}@{digest}"
    run_command(
        ["crane", "append", "--insecure", "--base", below, "--new_layer", str(layer), "--new_tag", reference]
    )
    made = run_command(["crane", "digest", "--insecure", reference]).strip()
    return f"assay.test/benchmarks/{pinned}:1@{made}"


def with_runner(bench: Bench, ledger: str, image: str) -> None:
    """Applies the Ledger with the benchmark's own runner image."""
    manifest = bench.manifests[ledger]
    manifest["spec"]["harness"] = {
        "repository": "https://git.example/benchmark",
        "commit": "0" * 40,
        "runnerImage": image,
    }
    apply([manifest])


def test_a_runner_pinned_to_another_ledger_stops_the_run_before_its_agent(
    bench: Bench, oracle: str, tmp_path: Path
) -> None:
    """Whatever a resource says, the runner compares with the pin in its own image."""
    pinned = bench.ledger(Task("pinned"), applied=False)
    image = pinned_runner(bench, tmp_path, pinned)
    ledger = bench.ledger(Task("unpinned", solve=f"echo '{MARKER}'"), applied=False)
    with_runner(bench, ledger, image)
    run = bench.run(ledger, oracle)
    stopped = run.wait_for("Suspended", "True", "LedgerMismatch")
    assert bench.manifests[pinned]["spec"]["digest"] in stopped["message"]
    assert bench.manifests[ledger]["spec"]["digest"] in stopped["message"]
    (left,) = run.evidence()
    assert MARKER.encode() not in left.everything()

    with_runner(bench, pinned, image)
    run = bench.run(pinned, oracle)
    completed = run.completed()
    assert completed.status.vector[0].score_strict == "1"
    (left,) = run.evidence()
    assert "PinExternal" not in left.manifest.result.flags


SEES_THE_ANSWER_ALONE = """
mkdir -p /logs/verifier
if grep -q done /srv/answer.txt && ! test -e /srv/left-behind.txt; then echo 1; else echo 0; fi \\
    > /logs/verifier/reward.txt
"""


def test_a_separate_verifier_that_the_ledger_asks_for_gets_only_what_crosses(
    bench: Bench, oracle: str, tmp_path: Path
) -> None:
    name = unique("ledger")
    leave = "mkdir -p /srv && echo done > /srv/answer.txt && echo noise > /srv/left-behind.txt"
    Task("crossing", solve=leave, test=SEES_THE_ANSWER_ALONE, separate=False).write(
        tmp_path / "tasks", bench.task_image
    )
    asked = '[defaults.verifier]\nmode = "separate"\ncrossing_files = ["/srv/answer.txt"]\n'
    apply([bench.publish(name, tmp_path / "tasks", build_file(name) + asked)])
    run = bench.run(name, oracle)
    assert run.completed().status.vector[0].score_strict == "1"
