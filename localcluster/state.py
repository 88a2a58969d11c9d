"""state.json: what the supervisor says about its components, whenever something changes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from localcluster.errors import ClusterError
from localcluster.facts import replace
from localcluster.layout import Layout

TAIL_LINES = 15


class Phase(StrEnum):
    STARTING = "starting"
    UP = "up"
    FAILED = "failed"


class Status(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"


class ComponentState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: Status = Status.WAITING
    #: Inside the namespaces; None for a condition.
    pid: int | None = None
    #: Seconds from the start of the cluster until it was ready.
    ready_after_s: float | None = None
    #: How it ended, such as "exit status 1" or "SIGKILL".
    ended: str | None = None


class State(BaseModel):
    model_config = ConfigDict(extra="forbid")

    phase: Phase = Phase.STARTING
    #: Why the start failed; empty otherwise.
    failure: str = ""
    components: dict[str, ComponentState]

    @classmethod
    def read(cls, where: Layout) -> State | None:
        """None before the supervisor has written anything.

        Raises ClusterError when the file was written by another version of this package.
        """
        try:
            return cls.model_validate_json(where.state.read_text())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise ClusterError(f"{where.state} is not what this version writes: `down`, then `up`") from error

    def write(self, where: Layout) -> None:
        replace(where.state, self.model_dump_json(indent=2) + "\n")

    def dead(self) -> list[str]:
        """Names of components that died."""
        return [name for name, component in self.components.items() if component.status is Status.DEAD]


def tail(where: Layout, component: str) -> str:
    """The end of a component's log, each line indented; says so when there is none."""
    try:
        lines = (where.logs / f"{component}.log").read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        lines = []
    return "\n".join(f"    {line}" for line in lines) or "    (its log is empty)"


def describe_death(where: Layout, name: str, ended: str | None) -> str:
    """One component's end, with the tail of its log."""
    return f"{name} died ({ended}). The end of {where.logs / name}.log:\n{tail(where, name)}"
