"""The scripts: which answer belongs to which conversation."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("scripts.toml")
_TERMINUS_XML = "<response>"


@dataclass(frozen=True)
class Message:
    """One message of a conversation: role (system, user or assistant) and text."""

    role: str
    text: str


@dataclass(frozen=True)
class Turn:
    """One answer: what the model sees and plans, the keystrokes that it sends, and whether it is done."""

    analysis: str
    plan: str
    commands: tuple[str, ...]
    complete: bool = False


_DONE = Turn("What I planned is done.", "Nothing is left to do.", (), complete=True)


def load(path: Path = _FILE) -> dict[str, tuple[Turn, ...]]:
    """The turns of each script by its heading."""
    scripts = tomllib.loads(path.read_text())["script"]
    return {
        script["heading"]: tuple(
            Turn(turn["analysis"], turn["plan"], tuple(turn["commands"])) for turn in script["turn"]
        )
        for script in scripts
    }


def next_turn(
    scripts: Mapping[str, tuple[Turn, ...]], conversation: Sequence[Message], most: int | None = None
) -> Turn:
    """The turn that follows, of at most `most` turns; the same for the same conversation."""
    opening = next((message.text for message in conversation if message.role == "user"), "")
    headings = (heading for heading in scripts if heading and heading in opening)
    turns = scripts[next(headings, "")][:most]
    answers = sum(message.role == "assistant" for message in conversation)
    return turns[answers] if answers < len(turns) else _DONE


def render(turn: Turn, conversation: Sequence[Message]) -> str:
    """The turn in the form that the agent's first message asks for: terminus-2's JSON, or its XML."""
    opening = conversation[0].text if conversation else ""
    return _as_xml(turn) if _TERMINUS_XML in opening else _as_json(turn)


def _keystrokes(command: str) -> str:
    return command.removeprefix("\n")


def _as_json(turn: Turn) -> str:
    answer: dict[str, object] = {
        "analysis": turn.analysis,
        "plan": turn.plan,
        "commands": [{"keystrokes": _keystrokes(command), "duration": 1.0} for command in turn.commands],
    }
    if turn.complete:
        answer["task_complete"] = True
    return json.dumps(answer, indent=2)


def _as_xml(turn: Turn) -> str:
    keys = "".join(
        f'<keystrokes duration="1.0">{_keystrokes(command)}</keystrokes>\n' for command in turn.commands
    )
    complete = "<task_complete>true</task_complete>\n" if turn.complete else ""
    return (
        f"<response>\n<analysis>{turn.analysis}</analysis>\n<plan>{turn.plan}</plan>\n"
        f"<commands>\n{keys}</commands>\n{complete}</response>"
    )


_TOKEN = re.compile(r"\w+|[^\w\s]")


def count_tokens(text: str) -> int:
    """Tokens of a text: words and signs. No tokenizer's count, but always the same."""
    return len(_TOKEN.findall(text))
