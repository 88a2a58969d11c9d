"""The page of one attempt, made by the command line from evidence, in a real browser."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.report_html.browser import Scheme, opened
from tests.report_html.evidence import INSTRUCTION, TRAJECTORY, call, plain_files, trajectory, write_try


def page_of(place: Path) -> Path:
    output = place / "attempt.html"
    done = assay("report", "attempt", place, "-o", output)
    assert done.returncode == 0, done.stderr
    return output


def assay(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The installed command."""
    command = [Path(sys.executable).with_name("assay"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_tells_the_whole_story(chromium: Browser, tmp_path: Path, scheme: Scheme) -> None:
    page = page_of(write_try(tmp_path, plain_files()))
    with opened(chromium, page, scheme) as found:
        assert found.errors == []
        assert found.requests == []
        assert found.faults() == []
        assert found.page.locator("h1").inner_text() == "candidate on count-requests: reward 1"
        assert found.page.locator("#instruction pre").inner_text() == INSTRUCTION
        steps = found.page.locator("article.step").all_inner_texts()
        assert "wc -l access.log" in steps[1]
        assert "1234 access.log" in steps[1]
        assert "1 passed in 0.01s" in (found.page.locator("#verifier").text_content() or "")
        calls = found.page.locator("#calls tbody tr").all_inner_texts()
        assert len(calls) == 2
        assert calls[0].split("\t")[:5] == ["1", "main", "claude-opus-5-5", "200", "1,200"]
        assert "60.0" in found.page.locator("#timings").inner_text()
        listed = found.page.locator("#evidence-files tbody th").all_inner_texts()
        assert listed == list(plain_files())


def test_evidence_that_somebody_changed_is_named_and_not_shown(chromium: Browser, tmp_path: Path) -> None:
    place = write_try(tmp_path, plain_files())
    (place / "trial/verifier/test-stdout.txt").write_text("2 passed\n")
    (place / "runner.log").unlink()
    with opened(chromium, page_of(place)) as found:
        words = found.page.locator("body").inner_text()
        assert "trial/verifier/test-stdout.txt is not what the manifest lists: somebody changed it" in words
        assert "runner.log is listed by the manifest and is not there" in words
        assert "2 passed" not in (found.page.locator("body").text_content() or "")


def test_a_try_without_a_verdict_and_without_files(chromium: Browser, tmp_path: Path) -> None:
    place = write_try(
        tmp_path, {}, outcome="VerifierTimeout", reward=None, reason="it ran 900 s", model_calls=0
    )
    with opened(chromium, page_of(place)) as found:
        assert found.errors == []
        words = found.page.locator("body").inner_text()
        assert "candidate on count-requests: no reward" in words
        assert "it ran 900 s" in words
        assert "No trajectory is in the evidence." in words
        assert "The verifier left no text." in words


def test_refusals_and_fallbacks_show_in_the_calls(chromium: Browser, tmp_path: Path) -> None:
    lines = [
        call(1, refusal="stop_reason refusal", stopReason="refusal"),
        call(2, modelAnswered="another-model", undeclared=["model another-model"]),
    ]
    files = {
        **plain_files(),
        "calls/000001.jsonl": b"".join(json.dumps(one).encode() + b"\n" for one in lines) + b"{half\n",
    }
    with opened(chromium, page_of(write_try(tmp_path, files))) as found:
        words = found.page.locator("#calls table").inner_text()
        assert "refused: stop_reason refusal" in words
        assert "claude-opus-5-5, answered by another-model" in words
        assert "is no call record" in words


def test_a_broken_trajectory_is_told(chromium: Browser, tmp_path: Path) -> None:
    place = write_try(tmp_path, {TRAJECTORY: b'{"steps": '})
    with opened(chromium, page_of(place)) as found:
        assert "the trajectory is no JSON" in found.page.locator("#trajectory").inner_text()


def test_a_long_trajectory_stays_a_page(chromium: Browser, tmp_path: Path) -> None:
    steps = [{"source": "agent", "message": f"step {number} " + "word " * 2000} for number in range(3000)]
    place = write_try(tmp_path, {TRAJECTORY: trajectory(*steps)})
    page = page_of(place)
    assert page.stat().st_size < 12_000_000
    with opened(chromium, page) as found:
        assert (
            "more steps are in trial/agent/trajectory.json" in found.page.locator("#trajectory").inner_text()
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-folder"], "is no address of a try"),
        (["nightly", "count-requests"], "give a task and a variant"),
        (["."], "holds no manifest.json"),
    ],
)
def test_what_it_cannot_use_is_told(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = assay("report", "attempt", *arguments, "-o", tmp_path / "page.html")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "page.html").exists()
