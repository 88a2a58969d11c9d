"""Trajectories come from the agent's container: the reader takes what is of the format and never breaks."""

import json

import pytest

from assay.core.trajectory import Step, ToolCall, TrajectoryError, read_trajectory

STEP = {
    "step_id": 2,
    "timestamp": "2026-11-30T12:00:00Z",
    "source": "agent",
    "model_name": "model-x",
    "message": "I list the files.",
    "reasoning_content": "What is there?",
    "tool_calls": [
        {
            "tool_call_id": "1",
            "function_name": "bash_command",
            "arguments": {"keystrokes": "ls\n", "duration": 1},
        }
    ],
    "observation": {"results": [{"source_call_id": "1", "content": "README.md"}]},
    "metrics": {"prompt_tokens": 120, "completion_tokens": 8},
}


def trajectory(*steps: object) -> bytes:
    agent = {"name": "terminus-2", "version": "2.0", "model_name": "model-x"}
    return json.dumps({"schema_version": "ATIF-v1.7", "agent": agent, "steps": steps}).encode()


def test_a_step_is_what_the_agent_said_did_and_saw() -> None:
    found = read_trajectory(trajectory({"step_id": 1, "source": "user", "message": "Count."}, STEP))
    assert (found.agent, found.version, found.model) == ("terminus-2", "2.0", "model-x")
    assert found.steps == (
        Step(1, "user", "Count."),
        Step(
            number=2,
            source="agent",
            message="I list the files.",
            reasoning="What is there?",
            timestamp="2026-11-30T12:00:00Z",
            model="model-x",
            calls=(ToolCall("bash_command", '{"keystrokes":"ls\\n","duration":1}'),),
            observations=("README.md",),
            input_tokens=120,
            output_tokens=8,
        ),
    )


def test_content_parts_are_text_and_names_of_pictures() -> None:
    parts = [
        {"type": "text", "text": "look:"},
        {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}},
    ]
    found = read_trajectory(trajectory({"source": "user", "message": parts}))
    assert found.steps[0].message == "look:\n[image: images/1.png]"


@pytest.mark.parametrize(
    "step",
    [
        None,
        7,
        "text",
        {},
        {"source": 5, "message": {"odd": True}, "tool_calls": "no list", "observation": [1]},
        {
            "tool_calls": [None, 3, {"function_name": None}],
            "observation": {"results": [None, {"content": 4}]},
        },
        {"metrics": {"prompt_tokens": True, "completion_tokens": "many"}},
    ],
)
def test_a_step_that_is_no_step_breaks_nothing(step: object) -> None:
    found = read_trajectory(trajectory(step, STEP))
    assert len(found.steps) == 2
    assert found.steps[0].input_tokens is None
    assert found.steps[1].message == "I list the files."


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"steps": {}}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_trajectory_is_refused(content: bytes) -> None:
    with pytest.raises(TrajectoryError, match="the trajectory is no JSON"):
        read_trajectory(content)
