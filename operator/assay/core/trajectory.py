"""Agent trajectories in Harbor's format (ATIF), read for people.

The file is written in the agent's container, so it is read without trust: what is not of the format is shown
as text or left out, and never stops the reader. https://www.harborframework.com/docs/agents/trajectory-format
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

TRAJECTORY_PATH = "trial/agent/trajectory.json"
"""Where Harbor's agents leave it in the evidence of a try of one step."""


class TrajectoryError(ValueError):
    """The bytes are no trajectory; the message says what they are."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the agent called, and its arguments as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Step:
    """One turn. Text that is absent is empty; tokens are None where unknown."""

    number: int
    source: str
    """`system`, `user` or `agent`."""
    message: str = ""
    reasoning: str = ""
    timestamp: str = ""
    model: str = ""
    calls: tuple[ToolCall, ...] = ()
    observations: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What an agent did, in its order."""

    agent: str
    version: str
    model: str
    steps: tuple[Step, ...]


def read_trajectory(content: bytes) -> Trajectory:
    """The trajectory of a file's bytes. Raises TrajectoryError where they are no JSON object with steps."""
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TrajectoryError(f"the trajectory is no JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        raise TrajectoryError("the trajectory is no JSON object with a list of steps")
    agent = _dict(document.get("agent"))
    return Trajectory(
        agent=_text(agent.get("name")),
        version=_text(agent.get("version")),
        model=_text(agent.get("model_name")),
        steps=tuple(_step(number, _dict(step)) for number, step in enumerate(document["steps"], start=1)),
    )


def _step(number: int, step: dict[str, Any]) -> Step:
    metrics = _dict(step.get("metrics"))
    return Step(
        number=number,
        source=_text(step.get("source")) or "unknown",
        message=_text(step.get("message")),
        reasoning=_text(step.get("reasoning_content")),
        timestamp=_text(step.get("timestamp")),
        model=_text(step.get("model_name")),
        calls=tuple(_calls(step.get("tool_calls"))),
        observations=tuple(_observations(_dict(step.get("observation")).get("results"))),
        input_tokens=_count(metrics.get("prompt_tokens")),
        output_tokens=_count(metrics.get("completion_tokens")),
    )


def _calls(found: object) -> Iterator[ToolCall]:
    for call in map(_dict, _list(found)):
        yield ToolCall(_text(call.get("function_name")), _text(call.get("arguments")))


def _observations(found: object) -> Iterator[str]:
    for result in map(_dict, _list(found)):
        if text := _text(result.get("content")):
            yield text


def _text(value: object) -> str:
    """Text of a field: a string, the text parts of a list of content parts, else the value as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_part, value)))
    return msgspec.json.encode(value).decode()


def _part(part: object) -> str:
    found = _dict(part)
    if isinstance(found.get("text"), str):
        return str(found["text"])
    source = _dict(found.get("source"))
    return (
        f"[{_text(found.get('type')) or 'content'}: {_text(source.get('path'))}]" if source else _text(part)
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
