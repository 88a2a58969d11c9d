"""The page of one try of an attempt: what was asked, what the agent did, what the verifier said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import msgspec

from assay.api.evidence import EvidenceFile, Manifest, PhaseSeconds, TryResult
from assay.core.outcomes import TABLE
from assay.core.report_cells import UNKNOWN
from assay.core.report_html.cut import CutText, cut, cut_bytes
from assay.core.report_html.drawing import Chart, Margins, draw, rows, text_width
from assay.core.report_html.page import render
from assay.core.report_html.tables import Cell, Column, HtmlTable, words
from assay.core.trajectory import Step, Trajectory, TrajectoryError, read_trajectory

MAX_STEPS, MAX_CALLS, MAX_FILES = 1_000, 2_000, 2_000
MAX_PAGE_CHARACTERS = 6_000_000
"""Of trajectory text; past it steps are listed without their text."""
_STEP_TEXT = 12_000
_PHASES = ("isolation", "setup", "agent", "verifier", "upload")
_VERIFIER, _AGENT = "trial/verifier/", "trial/agent/"
_TEXT_SUFFIXES = (".txt", ".log", ".json", ".jsonl", ".md", ".xml", ".pane", ".out", ".err", "")
MAX_SHOWN_FILES = 12
"""Text files of verifier or agent that are shown in full; the list of evidence has all."""


class CallLine(msgspec.Struct, rename="camel"):
    """A line of `calls/*.jsonl` without its bodies."""

    sequence: int = 0
    role: str | None = None
    started_at: str = ""
    latency_seconds: float = 0.0
    status: int = 0
    model_asked: str | None = None
    model_answered: str | None = None
    tokens: dict[str, Any] = {}
    stop_reason: str | None = None
    refusal: str | None = None
    error: str | None = None
    undeclared: list[str] = []
    blocked_tools: list[str] = []


@dataclass(frozen=True, slots=True)
class TryFiles:
    """The evidence of one try. `contents` has the files that could be read and are what the manifest lists.

    `problems` are words about the others. `instruction` is None where the task's archive is not at hand.
    `ran_in` names the try whose agent this one only judged.
    """

    manifest: Manifest
    digest: str
    address: str
    contents: Mapping[str, bytes]
    problems: Sequence[str] = ()
    instruction: str | None = None
    ran_in: int | None = None


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step of the trajectory, cut to a page."""

    step: Step
    message: CutText
    reasoning: CutText
    calls: Sequence[tuple[str, CutText]]
    observations: Sequence[CutText]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A text file of the evidence."""

    path: str
    digest: str
    content: CutText


@dataclass(frozen=True, slots=True)
class ShownTrajectory:
    """A trajectory, cut to a page."""

    path: str
    trajectory: Trajectory
    steps: Sequence[ShownStep]
    note: str


def wanted(file: EvidenceFile) -> bool:
    """Whether the page shows the file's content: what is read for it."""
    if file.path.startswith("calls/") or file.path.endswith("trajectory.json"):
        return True
    return file.path == "runner.log" or (
        file.path.startswith((_VERIFIER, _AGENT)) and PurePosixPath(file.path).suffix in _TEXT_SUFFIXES
    )


def attempt_page(files: TryFiles) -> str:
    """The page. Everything in it but the manifest's own fields is written by the agent or its environment."""
    manifest = files.manifest
    calls = list(_calls(files.contents))
    return render(
        "attempt.html.j2",
        files=files,
        identity=manifest.identity,
        result=manifest.result,
        meaning=TABLE[manifest.result.outcome].meaning,
        instruction=cut(files.instruction) if files.instruction is not None else None,
        trajectories=list(_trajectories(files.contents)),
        verifier=list(_texts(files, _VERIFIER)),
        agent=list(_texts(files, _AGENT)),
        runner=list(_texts(files, "runner.log")),
        timings=_timings(manifest.result),
        timings_chart=_timings_chart(manifest.result.seconds),
        calls_table=_calls_table(calls),
        call_count=len(calls),
        evidence=_evidence_table(files),
    )


def _trajectories(contents: Mapping[str, bytes]) -> Iterator[ShownTrajectory]:
    for path in sorted(contents):
        if not path.endswith("trajectory.json"):
            continue
        try:
            found = read_trajectory(contents[path])
        except TrajectoryError as error:
            yield ShownTrajectory(path, Trajectory("", "", "", ()), (), str(error))
            continue
        yield _shown(path, found)


def _shown(path: str, found: Trajectory) -> ShownTrajectory:
    steps, left = [], MAX_PAGE_CHARACTERS
    for step in found.steps[:MAX_STEPS]:
        most = _STEP_TEXT if left > 0 else 0
        shown = ShownStep(
            step,
            cut(step.message, most),
            cut(step.reasoning, most),
            [(call.name, cut(_readable(call.arguments), most)) for call in step.calls[:50]],
            [cut(one, most) for one in step.observations[:50]],
        )
        texts = (shown.message, shown.reasoning, *(one for _, one in shown.calls), *shown.observations)
        left -= sum(len(one.text) for one in texts)
        steps.append(shown)
    note = ""
    if len(found.steps) > MAX_STEPS:
        note = f"{len(found.steps) - MAX_STEPS:,} more steps are in {path}."
    elif left <= 0:
        note = f"The texts are too long for one page: those of the last steps are in {path} alone."
    return ShownTrajectory(path, found, steps, note)


def _readable(arguments: str) -> str:
    """The arguments of a tool call, one a line, with line breaks as the tool got them."""
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    if not isinstance(found, dict):
        return arguments
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in found.items()
    )


def _texts(files: TryFiles, prefix: str) -> Iterator[ShownFile]:
    listed = {one.path: one for one in files.manifest.files}
    paths = [
        path
        for path in sorted(files.contents)
        if path.startswith(prefix) and not path.endswith("trajectory.json")
    ]
    for path in paths[:MAX_SHOWN_FILES]:
        yield ShownFile(path, listed[path].sha256, cut_bytes(files.contents[path]))


def _timings(result: TryResult) -> HtmlTable:
    seconds = result.seconds
    table = [
        [words(phase), Cell(_number(value), value=value)]
        for phase in (*_PHASES, "trial")
        for value in [getattr(seconds, phase)]
    ]
    whole = (result.finished_at - result.started_at).total_seconds()
    table.append([words("from start to finish"), Cell(_number(whole), value=whole)])
    return HtmlTable(
        "timings", "Seconds of each phase", (Column("Phase", numeric=False), Column("Seconds")), table
    )


def _timings_chart(seconds: PhaseSeconds) -> Chart | None:
    data = [
        {"phase": phase, "seconds": value, "text": f"{_number(value)} s"}
        for phase in _PHASES
        for value in [getattr(seconds, phase)]
        if value is not None
    ]
    if not data:
        return None
    spec = {
        "width": 320,
        "height": 28 * len(data),
        "data": rows(data),
        "encoding": {
            "y": {
                "field": "phase",
                "type": "nominal",
                "sort": None,
                "axis": {"title": None, "domain": False, "ticks": False},
            },
            "x": {"field": "seconds", "type": "quantitative", "axis": {"title": "Seconds", "tickCount": 5}},
        },
        "layer": [
            {"mark": {"type": "bar", "height": 16, "color": "var(--candidate)"}},
            {
                "mark": {"type": "text", "align": "left", "dx": 5},
                "encoding": {"text": {"field": "text"}},
            },
        ],
    }
    said = "; ".join(f"{one['phase']} {one['text']}" for one in data)
    return draw(
        "chart-timings",
        "Seconds of each phase",
        f"{said}.",
        spec,
        Margins(left=80, right=20 + text_width("99,999.9 s")),
    )


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def _calls(contents: Mapping[str, bytes]) -> Iterator[CallLine]:
    decoder = msgspec.json.Decoder(CallLine)
    for path in sorted(contents):
        if path.startswith("calls/"):
            for line in contents[path].splitlines():
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    yield CallLine(error=f"this line of {path} is no call record: {error}")


def _calls_table(calls: Sequence[CallLine]) -> HtmlTable:
    table = [
        [
            Cell(str(one.sequence), value=one.sequence),
            words(one.role or UNKNOWN),
            words(_model(one)),
            Cell(str(one.status), value=one.status),
            *(_tokens(one, kind) for kind in ("input", "cacheRead", "output", "reasoning")),
            Cell(_number(one.latency_seconds), value=one.latency_seconds),
            words(one.stop_reason or UNKNOWN),
            words(_remarks(one)),
        ]
        for one in calls[:MAX_CALLS]
    ]
    numeric = {"Call", "Status", "In", "Cache read", "Out", "Reasoning", "Seconds"}
    titles = ("Call", "Role", "Model", "Status", "In", "Cache read", "Out", "Reasoning", "Seconds")
    more = len(calls) - len(table)
    return HtmlTable(
        "calls",
        "Calls to models, as they were metered on the wire",
        [Column(title, numeric=title in numeric) for title in (*titles, "Stop reason", "Remarks")],
        table,
        notes=[f"{more:,} more are in calls/."] if more > 0 else [],
        filterable=len(table) > 20,
    )


def _tokens(one: CallLine, kind: str) -> Cell:
    count = one.tokens.get(kind)
    return Cell(f"{count:,}", value=count) if isinstance(count, int) else Cell(UNKNOWN)


def _model(one: CallLine) -> str:
    asked, answered = one.model_asked or UNKNOWN, one.model_answered
    return asked if answered in (None, asked) else f"{asked}, answered by {answered}"


def _remarks(one: CallLine) -> str:
    remarks = {
        "refused": one.refusal or "",
        "error": one.error or "",
        "undeclared": ", ".join(one.undeclared),
        "tools refused": ", ".join(one.blocked_tools),
    }
    return cut("; ".join(f"{name}: {said}" for name, said in remarks.items() if said), 500).text


def _evidence_table(files: TryFiles) -> HtmlTable:
    shown = files.manifest.files[:MAX_FILES]
    more = len(files.manifest.files) - len(shown)
    return HtmlTable(
        "evidence-files",
        f"{len(files.manifest.files):,} files below {files.address}",
        (Column("File", numeric=False), Column("Bytes"), Column("sha256", numeric=False)),
        [[words(one.path), Cell(f"{one.size:,}", value=one.size), words(one.sha256)] for one in shown],
        notes=[f"{more:,} more are in manifest.json."] if more > 0 else [],
        filterable=len(shown) > 8,
    )
