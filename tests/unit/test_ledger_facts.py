"""Facts that a ledger freezes: the oracle and its proof, upstream digests, who labelled when.

Also which files cross to a verifier that the ledger asks for."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import OracleKind, VerifierMode
from assay.core.archive import harbor_digest, write_archive
from assay.core.ledger import parse_ledger, render_ledger
from assay.core.ledger_build import LedgerBuilder, LedgerRefusedError
from assay.core.oracle import OracleRunsError, parse_oracle_runs
from assay.core.upstream import Upstream, UpstreamError, parse_upstream
from tests.unit.ledger_tasks import BUILD, DIGEST, OTHER_DIGEST, build, entries, refusals, task

IMAGE = f"registry.example/task@{DIGEST}"


ARCHIVE = write_archive(entries(task())).digest
HARBOR = harbor_digest(entries(task()))


def runs(
    *found: tuple[str, float | None], image: str | None = IMAGE, name: str = "org/one", **more: str | None
) -> bytes:
    """Attempt records of the agents with their rewards."""
    lines = []
    for number, (agent, reward) in enumerate(found):
        record = {
            "run": "proof",
            "ledger": "sample",
            "task": name,
            "variant": agent,
            "repetition": number,
            "retained": True,
            "outcome": "Graded",
            "reward": reward,
            "images": {"environment": image} if image else {},
            "harness": {"agent": agent},
            "archiveDigest": ARCHIVE,
            **more,
        }
        lines.append(json.dumps(record))
    return "\n".join(lines).encode()


GOOD = (("oracle", 1.0), ("oracle", 1.0), ("oracle", 1.0), ("nop", 0.0))


def made(content: bytes | None, published: Upstream | None = None, /, **stated: Any) -> Any:
    """The ledger of one task with these oracle runs and this manifest."""
    build_file = LedgerBuildFile.model_validate({**BUILD, **stated})
    given = parse_oracle_runs([content]) if content is not None else None
    builder = LedgerBuilder(build_file, build_file.images.get, upstream=published, oracle_runs=given)
    builder.add("t0", entries(task()))
    ledger = builder.finish()
    return parse_ledger(render_ledger(ledger.header, ledger.tasks))


def refused(content: bytes | None, published: Upstream | None = None, /, **stated: Any) -> str:
    with pytest.raises(LedgerRefusedError) as error:
        made(content, published, **stated)
    return str(error.value)


def test_runs_of_the_solution_and_of_no_change_prove_an_oracle() -> None:
    ledger = made(runs(*GOOD))
    (line,) = ledger.tasks
    assert line.oracle.proof.solution_rewards == [1, 1, 1]
    assert line.oracle.proof.no_change_rewards == [0]
    assert ledger.without_proof == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (runs(*GOOD[1:]), "2 runs of the reference solution and 1 of no change"),
        (runs(*GOOD[:3]), "3 runs of the reference solution and 0 of no change"),
        (runs(*GOOD[:2], ("oracle", 0.0), GOOD[3]), "the reference solution scored 0.0 in 1 of 3 runs"),
        (runs(*GOOD[:3], ("nop", 1.0)), "no change scored 1.0 in 1 of 1 runs"),
        (
            runs(*GOOD, image=f"registry.example/task@{OTHER_DIGEST}"),
            "a run was on environment image registry.example/task@",
        ),
        (runs(*GOOD, archiveDigest=DIGEST), f"a run was of other files of the task: {DIGEST}, not {ARCHIVE}"),
        (runs(*GOOD, archiveDigest=None), "does not say which files the task had"),
        (
            runs(*GOOD, archiveDigest=None, harborDigest=DIGEST),
            f"a run was of other files of the task: {DIGEST}",
        ),
        # Harbor does not say which image the tag of task.toml stood for.
        (runs(*GOOD, archiveDigest=None, harborDigest=HARBOR, image=None), "environment image unknown"),
        (runs(*GOOD, name="org/other"), "0 runs of the reference solution"),
    ],
)
def test_runs_that_prove_nothing_are_refused_unless_the_owner_accepts(content: bytes, says: str) -> None:
    words = refused(content)
    assert "org/one: oracle: " in words
    assert says in words
    assert "accept_without_proof" in words
    reason = "three of four solutions are flaky upstream"
    ledger = made(content, tasks={"org/one": {"accept_without_proof": reason}})
    assert ledger.tasks[0].oracle.proof is None
    assert ledger.tasks[0].oracle.accepted_without_proof == reason
    assert ledger.without_proof == []


def test_oracles_are_accepted_one_by_one() -> None:
    with pytest.raises(ValueError, match=r'write it in \[tasks."<id>"\] of each'):
        build(task(), defaults={**BUILD["defaults"], "accept_without_proof": "all are fine"})


def test_runs_of_several_places_prove_together_in_any_order() -> None:
    one, other = runs(*GOOD[:2]), runs(*GOOD[2:])
    proofs = {build_with([*order]).oracle.proof.results_digest for order in ((one, other), (other, one))}
    assert len(proofs) == 1


def build_with(contents: list[bytes]) -> Any:
    build_file = LedgerBuildFile.model_validate(BUILD)
    builder = LedgerBuilder(build_file, build_file.images.get, oracle_runs=parse_oracle_runs(contents))
    builder.add("t0", entries(task()))
    return builder.finish().tasks[0]


def test_without_runs_a_task_is_frozen_but_counted_as_unproved() -> None:
    assert made(None).without_proof == ["org/one"]


def test_a_line_that_is_no_record_is_named() -> None:
    with pytest.raises(OracleRunsError, match="line 2 is not an attempt record"):
        parse_oracle_runs([runs(GOOD[0]) + b"\n{}\n"])


def test_the_oracle_s_digest_covers_its_files_alone() -> None:
    def digest(**files: Any) -> str:
        (line,) = build(task(**files)).tasks
        assert line.oracle is not None
        assert line.oracle.kind is OracleKind.TESTS
        return line.oracle.digest

    assert digest() == digest(**{"instruction.md": "Do it otherwise."})
    assert digest() != digest(**{"tests/test.sh": "#!/bin/sh\nexit 1\n"})


def test_the_kind_of_an_oracle_is_what_the_owner_says() -> None:
    (line,) = build(task(), tasks={"t0": {"oracle_kind": "judge"}}).tasks
    assert line.oracle is not None
    assert line.oracle.kind is OracleKind.JUDGE


def manifest(digest: str) -> Upstream:
    text = f'[dataset]\nname = "org/set"\n[[tasks]]\nname = "org/one"\ndigest = "{digest}"\n'
    return parse_upstream(text.encode())


def test_a_manifest_that_still_holds_is_recorded() -> None:
    upstream = manifest(harbor_digest(entries(task())))
    found = made(None, upstream).header.upstream
    assert (found.listed, found.matched, found.stale, found.unlisted) == (1, 1, [], [])


def test_a_stale_digest_needs_the_explicit_line() -> None:
    words = refused(None, manifest(DIGEST))
    assert (
        "org/set: upstream digests: 0 of the 1 digests that the manifest lists for these tasks match" in words
    )
    assert "1 are stale: org/one" in words
    assert "accept_stale = {count = 1, reason = " in words
    accepted = {"upstream": {"accept_stale": {"count": 1, "reason": "edited in May"}}}
    header = made(None, manifest(DIGEST), **accepted).header
    assert header.upstream.stale == ["org/one"]
    assert header.upstream.accepted_stale.reason == "edited in May"


def test_one_more_stale_digest_than_was_accepted_is_refused_again() -> None:
    for digest, count in ((DIGEST, 2), (harbor_digest(entries(task())), 1)):
        accepted = {"upstream": {"accept_stale": {"count": count, "reason": "edited in May"}}}
        assert f"the build file accepts {count}" in refused(None, manifest(digest), **accepted)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[dataset", "is not TOML"),
        ("[[tasks]]\nname = 'a'\n", "dataset: Field required"),
        ("[dataset]\nname = 'a'\n[[tasks]]\nname = 'b'\ndigest = 'md5:1'\n", "tasks.0.digest"),
    ],
)
def test_a_bad_manifest_is_explained(text: str, says: str) -> None:
    with pytest.raises(UpstreamError, match=says.replace(".", r"\.")):
        parse_upstream(text.encode())


def test_labels_after_the_first_result_are_counted() -> None:
    late = {
        **BUILD["defaults"],
        "difficulty": {**BUILD["defaults"]["difficulty"], "date": "2026-06-01"},
    }
    ledger = build(task(), first_result_date="2026-05-31", defaults=late)
    assert ledger.labelled_after_results == ["org/one"]
    assert build(task(), first_result_date="2026-06-01", defaults=late).labelled_after_results == []
    assert build(task(), defaults=late).labelled_after_results == []


def test_a_ledger_may_ask_for_a_separate_verifier_with_the_files_that_cross() -> None:
    asked = {"mode": "separate", "crossing_files": ["/logs/agent/answer.txt"]}
    (line,) = build(task(), tasks={"t0": {"verifier": asked}}).tasks
    assert line.verifier_mode is VerifierMode.SEPARATE
    assert line.crossing_files == ["/logs/agent/answer.txt"]
    assert line.images.verifier == line.images.environment


@pytest.mark.parametrize(
    ("toml", "asked", "says"),
    [
        ("", {"mode": "separate"}, "verifier.crossing_files: nothing would reach the separate verifier"),
        (
            "[verifier.environment]\n",
            {"mode": "shared"},
            "verifier.mode: the task asks for a separate verifier",
        ),
    ],
)
def test_a_verifier_s_place_that_cannot_be_is_refused(toml: str, asked: dict[str, Any], says: str) -> None:
    (refusal,) = refusals(task(toml=toml), tasks={"t0": {"verifier": asked}})
    assert says in refusal


def test_an_exclusion_names_a_task() -> None:
    said = refusals(task(), plan={"exclusions": [{"task": "org/gone", "reason": "broken"}]})
    assert any("org/gone: build file: plan.exclusions" in one for one in said)


def test_the_build_file_of_the_documentation_is_one() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/ledger.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```toml\n")[1:]]
    whole = blocks[0].replace("sha256:…", DIGEST)
    assert LedgerBuildFile.model_validate(tomllib.loads(whole)).benchmark == "my-bench"
    for block in blocks[1:]:
        LedgerBuildFile.model_validate({"benchmark": "b", "version": "1", **tomllib.loads(block)})
