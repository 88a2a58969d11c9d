"""`assay score`, `assay compare`, `assay prices` and `assay suites` as their users meet them."""

import json
from pathlib import Path

import pytest

from assay.api.attempt_record import AttemptRecord
from assay.core.ledger import LedgerFile, render_ledger
from assay.core.report_tables import NOT_PUBLISHABLE
from tests.cli.conftest import run
from tests.unit.report.samples import attempts, ledger_file, lines, record, run_record
from tests.unit.report.suites import FILE, complete, ledgers

CALL = {
    "model": "claude-opus-5-5",
    "tokens": {"input": 1_000_000, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 0},
}


@pytest.fixture
def suite_files(tmp_path: Path) -> Path:
    """attempts.jsonl of the made-up suite, and its ledgers first.jsonl and second.jsonl."""
    records = complete("candidate", [1, 0], [1, 1]) + complete("baseline", [0, 0], [1, 0])
    (tmp_path / "attempts.jsonl").write_bytes(b"".join(lines(records)))
    for name, file in ledgers().items():
        (tmp_path / f"{name}.jsonl").write_bytes(render(file))
    return tmp_path


def render(file: LedgerFile) -> bytes:
    return render_ledger(file.header, file.tasks)


def write(folder: Path, *records: AttemptRecord) -> Path:
    path = folder / "attempts.jsonl"
    path.write_bytes(b"".join(lines(records)))
    return path


def test_one_command_makes_a_table(tmp_path: Path) -> None:
    done = run("score", write(tmp_path, *attempts({"a": [1, 0], "b": [0, None]})))
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{NOT_PUBLISHABLE}\n  - ")
    assert "25.0 ±" in done.stdout
    assert "3/4" in done.stdout
    assert "1 attempts without a result" in done.stdout


def test_help_leads_to_the_first_table() -> None:
    done = run("score", "--help")
    assert "assay score attempts.jsonl" in done.stdout
    assert "assay import harbor" in done.stdout


def test_a_suite_gives_the_index(suite_files: Path) -> None:
    options: list[str | Path] = ["--suite", FILE, "--baseline", "baseline"]
    for name in ("first", "second"):
        options += ["--ledger", suite_files / f"{name}.jsonl"]
    done = run("score", suite_files / "attempts.jsonl", *options, "--format", "json")
    assert done.exit_code == 0, done.stderr
    index = {row["variant"]: row for row in json.loads(done.stdout)["index"]}
    assert index["candidate"]["value"] == 0.75
    assert index["candidate"]["shift"]["shift"] == 0.5
    table = run("score", suite_files / "attempts.jsonl", *options, "--details")
    assert "Index made-up@2" in table.stdout
    assert "PASS@K" in table.stdout


def test_markdown_is_printed(suite_files: Path) -> None:
    done = run("score", suite_files / "attempts.jsonl", "--format", "markdown")
    assert done.stdout.startswith(f"**{NOT_PUBLISHABLE}**")
    assert "| VARIANT |" in done.stdout


def test_a_run_record_beside_the_attempts_is_read(tmp_path: Path) -> None:
    file = ledger_file({"a": "x", "b": "y"}, repetitions=1)
    records = attempts({"a": [1], "b": [0]}, "baseline", ledger_digest=file.digest)
    path = write(tmp_path, *records)
    (tmp_path / "run.json").write_text(
        run_record(
            {"ledger": file}, ["baseline", "lost"], deviations=["spec.deadlines.agentSeconds"]
        ).model_dump_json(by_alias=True)
    )
    (tmp_path / "ledger.jsonl").write_bytes(render(file))
    done = run("score", path, "--ledger", tmp_path / "ledger.jsonl", "--format", "json")
    report = json.loads(done.stdout)
    assert report["baseline"] == "baseline"
    assert {row["variant"]: row["score"]["coverage"] for row in report["vector"]} == {
        "baseline": 1,
        "lost": 0,
    }
    assert any("is NonStandard: spec" in reason for reason in report["reasonsAgainst"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b'{"schemaVersion": 2}\n', "line 1: schemaVersion is 2; this version of Assay reads 1"),
        (lines([record("a")])[0][:-30], "line 1: the file ends in the middle of this line"),
        (b"".join(lines([record("a"), record("a", reward=0.0)])), "line 2: try 1 of repetition 0 of task a"),
    ],
)
def test_bad_records_end_with_the_line_and_no_figure(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "attempts.jsonl"
    path.write_bytes(content)
    done = run("score", path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_record_of_a_task_that_the_ledger_lacks_is_refused(tmp_path: Path) -> None:
    file = ledger_file({"a": "x"}, repetitions=1)
    (tmp_path / "ledger.jsonl").write_bytes(render(file))
    path = write(tmp_path, record("a", ledger_digest=file.digest), record("b", ledger_digest=file.digest))
    done = run("score", path, "--ledger", tmp_path / "ledger.jsonl")
    assert done.exit_code == 1
    assert "line 2: task is b" in done.stderr


def test_prices_are_built_reviewed_and_used(tmp_path: Path) -> None:
    sheet = tmp_path / "prices.json"
    done = run("prices", "build", "claude-opus-5-5", "--date", "2026-11-30", "-o", sheet)
    assert done.exit_code == 0, done.stderr
    assert "claude-opus-5-5\tanthropic/claude-opus-5-5\t0\t4\t0.2\t5\t8\t20\t—" in done.stdout
    path = write(tmp_path, record("a", calls=[CALL]))
    for reviewed in (False, True):
        report = json.loads(run("score", path, "--prices", sheet, "--format", "json").stdout)
        assert report["vector"][0]["usage"]["costUsd"]["mean"] == "4"
        assert report["prices"]["reviewed"] is reviewed
        assert ("no person has reviewed the price sheet" in report["reasonsAgainst"]) is not reviewed
        signed = run("prices", "review", sheet, "--by", "Ada")
        assert signed.exit_code == 0
        scored = json.loads(run("score", path, "--prices", sheet, "--format", "json").stdout)
        assert f"digest: {scored['prices']['digest']}" in signed.stderr, "what a run has to name"


def test_prices_of_an_unknown_model_are_refused(tmp_path: Path) -> None:
    done = run("prices", "build", "no-such-model-9", "-o", tmp_path / "prices.json")
    assert done.exit_code == 1
    assert "no-such-model-9: genai-prices" in done.stderr
    assert not (tmp_path / "prices.json").exists()


def test_a_price_sheet_for_other_models_is_refused(tmp_path: Path) -> None:
    sheet = tmp_path / "prices.json"
    run("prices", "build", "gpt-6.1-sol", "-o", sheet)
    done = run("score", write(tmp_path, record("a", calls=[CALL])), "--prices", sheet)
    assert done.exit_code == 1
    assert "the price sheet prices gpt-6.1-sol, the records called claude-opus-5-5" in done.stderr


def report_file(folder: Path, name: str, *records: AttemptRecord) -> Path:
    (folder / name).mkdir()
    done = run("score", write(folder / name, *records), "--format", "json")
    (folder / name / "report.json").write_text(done.stdout)
    return folder / name / "report.json"


def test_compare_agrees_disagrees_and_refuses(tmp_path: Path) -> None:
    tasks = [f"t{number:02}" for number in range(20)]
    low, high = (attempts(dict.fromkeys(tasks, [reward] * 3)) for reward in (0, 1))
    moved = attempts(dict.fromkeys(tasks, [0] * 3), harness={"commit": "b" * 40})
    named = {"a": low, "b": high, "c": moved}
    a, b, c = (report_file(tmp_path, name, *records) for name, records in named.items())
    same = run("compare", a, a)
    assert (same.exit_code, "\tyes" in same.stdout) == (0, True)
    other = run("compare", a, b, "--json")
    assert (other.exit_code, json.loads(other.stdout)["agree"]) == (3, False)
    refused = run("compare", a, c)
    assert refused.exit_code == 1
    assert "harness: of candidate" in refused.stderr
    assert "--despite harness" in refused.stderr
    assert run("compare", a, c, "--despite", "harness").exit_code == 0
    assert run("compare", a, c, "--despite", "weather").exit_code == 1


def test_suites_are_listed_with_their_history() -> None:
    done = run("suites")
    assert "coding-agent-index\t1.5*\t8 to 10 September 2026\tDeepSWE v1.1 113" in done.stdout


@pytest.mark.parametrize("suite", ["coding-agent-index@9", "nowhere.yaml"])
def test_an_unknown_suite_is_refused(tmp_path: Path, suite: str) -> None:
    done = run("score", write(tmp_path, record("a")), "--suite", suite)
    assert done.exit_code == 1
    assert suite in done.stderr
