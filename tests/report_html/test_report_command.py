"""`assay report DIR` and `assay score --html`: pages without a cluster."""

import shutil
from pathlib import Path

import pytest

from assay.core.canonical import digest_of_bytes
from tests.report_html.samples import Sample
from tests.report_html.test_attempt_page import assay


def test_a_folder_becomes_a_page_or_tables(run: Sample, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert assay("report", run.folder, "--html", page).returncode == 0
    assert page.read_text() == run.page.read_text()
    done = assay("report", run.folder)
    assert done.stdout.startswith("NOT PUBLISHABLE")
    assert "candidate" in done.stdout


def test_scored_files_become_a_page_that_names_the_printed_json(run: Sample, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = assay("score", run.folder / "attempts.jsonl", "--format", "json", "--html", page)
    assert done.returncode == 0, done.stderr
    assert digest_of_bytes(done.stdout.encode()) in page.read_text()


def test_without_the_attempts_it_says_that_no_number_leads_further(run: Sample, tmp_path: Path) -> None:
    shutil.copy(run.folder / "report.json", tmp_path)
    page = tmp_path / "page.html"
    assert assay("report", tmp_path, "--html", page).returncode == 0
    assert "made without attempts.jsonl" in page.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "has no report.json"), ("{}", "report.json: "), ("not json", "report.json: ")],
)
def test_what_is_no_report_is_refused(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    done = assay("report", tmp_path, "--html", tmp_path / "page.html")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "page.html").exists()
