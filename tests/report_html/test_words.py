"""What the page says of figures: the answer in words, the Pareto front, places of labels."""

from typing import Any

import pytest

from assay.api.report import ShiftFigures, SignFlip
from assay.core.report_html.answer import Noise, answers, noise_of
from assay.core.report_html.cut import cut, cut_bytes
from assay.core.report_html.placing import Placed, place_labels
from assay.core.report_html.trade_offs import pareto_front
from tests.unit.report.samples import attempts, report


def shift(**test: Any) -> ShiftFigures:
    """A shift with a sign-flip test of these fields."""
    known = {
        "p_value": 0.01,
        "adjusted_p": None,
        "family": 1,
        "clusters": 10,
        "clusters_differing": 8,
        "smallest_possible_p": 0.001,
        "reason": None,
    }
    return ShiftFigures(
        baseline="baseline",
        shift=0.1,
        sampling=None,
        repeat_noise=None,
        sign_flip=SignFlip.model_validate({**known, **test}),
        minimum_detectable_effect=None,
        tasks=10,
        clusters=10,
        reason=None,
        error_reason=None,
    )


@pytest.mark.parametrize(
    ("test", "noise", "said"),
    [
        ({}, Noise.MORE, "p = 0.01"),
        ({"p_value": 1e-9}, Noise.MORE, "p < 0.0001"),
        ({"adjusted_p": 0.06, "family": 6}, Noise.WITHIN, "p = 0.06, adjusted for 6 comparisons"),
        ({"p_value": 0.05}, Noise.WITHIN, "p = 0.05"),
        (
            {"p_value": 0.25, "clusters_differing": 3, "smallest_possible_p": 0.25},
            Noise.UNKNOWN,
            "differ in only 3 clusters of 10",
        ),
        ({"p_value": None, "reason": "nothing differs"}, Noise.UNKNOWN, "nothing differs"),
    ],
)
def test_noise_is_judged_by_the_adjusted_p_of_the_exact_test(
    test: dict[str, Any], noise: Noise, said: str
) -> None:
    found, why = noise_of(shift(**test))
    assert found is noise
    assert said in why


@pytest.mark.parametrize(
    ("candidate", "headline"),
    [
        (1.0, "candidate is better than baseline by 50.0 points"),
        (0.0, "candidate is worse than baseline by 50.0 points"),
        (0.5, "candidate scored the same as baseline"),
        (0.5002, "candidate scored the same as baseline"),
    ],
)
def test_what_rounds_to_nothing_is_not_called_better(candidate: float, headline: str) -> None:
    tasks = {f"task-{number}": [0.5] for number in range(8)}
    records = [
        *attempts(tasks, "baseline"),
        *attempts({key: [candidate] for key in tasks}, "candidate"),
    ]
    (found,) = answers(report(records, baseline="baseline"))
    assert found.headline == headline


def test_what_may_be_noise_is_not_called_better() -> None:
    records = [
        *attempts({"a": [0.0], "b": [0.0]}, "baseline"),
        *attempts({"a": [1.0], "b": [0.0]}, "candidate"),
    ]
    (found,) = answers(report(records, baseline="baseline"))
    assert found.headline == "candidate scored 50.0 points more than baseline"
    assert found.noise is Noise.UNKNOWN


def test_nobody_on_the_front_is_beaten() -> None:
    points = [
        (1.0, 0.5, "cheap"),
        (2.0, 0.5, "dearer"),
        (2.0, 0.9, "good"),
        (3.0, 0.4, "bad"),
        (1.0, 0.5, "twin"),
    ]
    assert pareto_front(points) == {"cheap", "twin", "good"}
    assert pareto_front([]) == frozenset()


def test_labels_neither_cover_one_another_nor_leave_the_plot() -> None:
    points = [Placed(100 + 3 * number, 100 + 2 * number, f"variant-{number}") for number in range(12)]
    placed = [one for one in place_labels(points, 440, 260) if one.text]
    assert len(placed) >= 6
    for place, one in enumerate(placed):
        left, top, right, bottom = one.box
        assert 0 <= left < right <= 440
        assert 0 <= top < bottom <= 260
        for other in placed[place + 1 :]:
            assert (
                left >= other.box[2] or right <= other.box[0] or top >= other.box[3] or bottom <= other.box[1]
            )


def test_cut_text_keeps_both_ends_and_tells() -> None:
    found = cut("begin " + "x" * 100_000 + " end", 1000)
    assert found.text.startswith("begin")
    assert found.text.endswith(" end")
    assert "99,010 of 100,010 characters" in found.note
    assert cut("short").note == ""
    assert cut_bytes(b"\xff\xfe short").text.endswith("short")
