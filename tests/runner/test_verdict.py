"""Reward files: what counts as a verdict and what does not (cases.md BAR 5)."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.api.outcome import OutcomeClass
from assay.runner.verdict import BadVerdict, Verdict, read_verdict, verdict_of


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "reward"),
    [
        ({"reward_txt": "1\n"}, 1),
        ({"reward_txt": "0.25"}, 0.25),
        ({"reward_json": '{"reward": 0, "f2p_passed": 12, "partial": 0.4}'}, 0),
        ({"reward_json": '{"score": 0.5}'}, 0.5),
        ({"reward_json": '{"reward": 1}', "reward_txt": "1.0"}, 1),
    ],
)
def test_verdicts(tmp_path: Path, files: dict[str, str], reward: float) -> None:
    assert read_verdict(written(tmp_path, **files), 0).reward == reward


def test_all_figures_are_kept(tmp_path: Path) -> None:
    folder = written(tmp_path, reward_json='{"reward": 1, "f2p_passed": 12}')
    assert read_verdict(folder, 0) == Verdict(1, {"reward": 1, "f2p_passed": 12})


@pytest.mark.parametrize(
    ("files", "outcome", "words"),
    [
        ({}, OutcomeClass.VERIFIER_CRASH, "neither"),
        ({"reward_txt": ""}, OutcomeClass.VERIFIER_CRASH, "empty"),
        ({"reward_txt": "-1"}, OutcomeClass.VERIFIER_CRASH, "-1"),
        ({"reward_txt": "-0.5"}, OutcomeClass.INVALID_RESULT, "-0.5"),
        ({"reward_txt": "inf"}, OutcomeClass.INVALID_RESULT, "inf"),
        ({"reward_txt": "yes"}, OutcomeClass.INVALID_RESULT, "yes"),
        ({"reward_txt": "1.7"}, OutcomeClass.INVALID_RESULT, "1.7"),
        ({"reward_json": '{"reward": NaN}'}, OutcomeClass.INVALID_RESULT, "nan"),
        ({"reward_json": '{"reward": false}'}, OutcomeClass.INVALID_RESULT, "False"),
        ({"reward_json": '{"reward": "1"}'}, OutcomeClass.INVALID_RESULT, "'1'"),
        ({"reward_json": '{"reward": null}'}, OutcomeClass.INVALID_RESULT, "None"),
        ({"reward_json": '{"reward": 1, "other": 1e999}'}, OutcomeClass.INVALID_RESULT, "other"),
        ({"reward_json": '{"a": 1, "b": 0}'}, OutcomeClass.INVALID_RESULT, "a, b"),
        ({"reward_json": "1"}, OutcomeClass.INVALID_RESULT, "object"),
        ({"reward_json": "{"}, OutcomeClass.INVALID_RESULT, "not JSON"),
        ({"reward_json": "[" * 100_000}, OutcomeClass.INVALID_RESULT, "not JSON"),
        ({"reward_json": '{"reward": 0}', "reward_txt": "1"}, OutcomeClass.INVALID_RESULT, "says"),
        ({"reward_json": '{"a": 1, "b": 0}', "reward_txt": "1"}, OutcomeClass.INVALID_RESULT, "a, b"),
        (
            {"reward_json": '{"reward": 1, "num_unscored_must_have": 2}'},
            OutcomeClass.JUDGE_INCOMPLETE,
            "2 must-have rubrics unanswered",
        ),
    ],
)
def test_no_verdicts(tmp_path: Path, files: dict[str, str], outcome: OutcomeClass, words: str) -> None:
    with pytest.raises(BadVerdict, match=words) as caught:
        read_verdict(written(tmp_path, **files), 0)
    assert caught.value.outcome is outcome


def test_file_older_than_the_verifier(tmp_path: Path) -> None:
    now = time.time()
    os.utime(written(tmp_path, reward_txt="1") / "reward.txt", (now - 60, now - 60))
    with pytest.raises(BadVerdict, match="older"):
        read_verdict(tmp_path, now)


def test_link_instead_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("1")
    (tmp_path / "reward.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadVerdict, match="regular"):
        read_verdict(tmp_path, 0)


@given(st.floats() | st.integers() | st.booleans() | st.text(max_size=5) | st.none())
def test_whatever_a_verifier_writes_a_reward_lies_between_0_and_1(value: object) -> None:
    try:
        reward = verdict_of({"reward": value}).reward
    except BadVerdict:
        return
    assert 0 <= reward <= 1
