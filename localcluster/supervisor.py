"""PID 1 of a cluster: starts the components in order, watches them, reaps what they leave.

Usage: python -m localcluster.supervisor SETTINGS. Prints the number of PID 1 and ends; PID 1 stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from localcluster import cgroups, layout, namespaces
from localcluster.components import Component, Settings, components
from localcluster.errors import ClusterError
from localcluster.kubeapi import ApiError
from localcluster.state import ComponentState, Phase, State, Status, describe_death, tail

#: Pause between two looks at the conditions of a start.
LOOK_EVERY_S = 0.05
#: A start that takes longer than this has failed: six times what it takes on two busy cores.
START_WITHIN_S = 150.0
#: Sent when the file `restart` names a component.
RESTART = signal.SIGUSR1
WATCHED = {signal.SIGCHLD, signal.SIGTERM, RESTART}


class Supervisor:
    """Starts and watches one cluster's components. Single-threaded: nothing races with the reaping."""

    def __init__(self, settings: Settings) -> None:
        self.where = settings.layout
        self.plan = components(settings)
        self.state = State(components={component.name: ComponentState() for component in self.plan})
        self.started = time.monotonic()
        # Kept so that no Popen object is collected, which would wait for a child that is ours to reap.
        self._children: dict[int, tuple[Component, subprocess.Popen[bytes]]] = {}
        self.state.write(self.where)

    def start(self) -> None:
        """Returns when everything is ready. Raises ClusterError naming the component that failed."""
        while not all(state.status is Status.READY for state in self.state.components.values()):
            for component in self.plan:
                self._advance(component)
            self._wait(LOOK_EVERY_S)
            if dead := self.state.dead():
                ended = self.state.components[dead[0]].ended
                raise ClusterError(describe_death(self.where, dead[0], ended))
            if time.monotonic() - self.started > START_WITHIN_S:
                raise ClusterError(self._describe_delay())
        self.state.phase = Phase.UP
        self.state.write(self.where)

    def watch(self) -> NoReturn:
        """Records the end of any component and restarts what it is asked to, until SIGTERM."""
        while True:
            starting = [one for one in self.plan if self.state.components[one.name].status is Status.STARTING]
            self._wait(LOOK_EVERY_S if starting else None)
            for component in starting:
                self._advance(component)

    def _restart(self) -> None:
        """Kills the component that was named, as a crash would, and starts it anew."""
        name = self.where.restart.read_text()
        component = next(one for one in self.plan if one.name == name)
        state = self.state.components[name]
        if state.pid in self._children:
            _, process = self._children.pop(state.pid)
            process.kill()
            process.wait()
        state.pid, state.ended = self._spawn(component), None
        state.status = Status.STARTING
        self.state.write(self.where)

    def _advance(self, component: Component) -> None:
        state = self.state.components[component.name]
        if state.status is Status.WAITING and all(self._is_ready(name) for name in component.after):
            if component.argv:
                state.pid = self._spawn(component)
            state.status = Status.STARTING
            self.state.write(self.where)
        if state.status is Status.STARTING and not component.once and _holds(component):
            self._set_ready(state)

    def _is_ready(self, name: str) -> bool:
        return self.state.components[name].status is Status.READY

    def _set_ready(self, state: ComponentState) -> None:
        state.status = Status.READY
        state.ready_after_s = round(time.monotonic() - self.started, 2)
        self.state.write(self.where)

    def _spawn(self, component: Component) -> int:
        environment = {
            "PATH": f"{namespaces.SYSTEM_PATH}:{os.environ.get('PATH', '')}",
            "HOME": str(self.where.root),
            "PYTHONPATH": str(layout.CHECKOUT),
        }
        try:
            with (self.where.logs / f"{component.name}.log").open("ab") as log:
                process = subprocess.Popen(
                    component.argv,
                    cwd=self.where.root,
                    env=environment | component.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    # A child would inherit the signals that are blocked here and never hear of SIGTERM.
                    preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []),
                )
        except OSError as error:
            raise ClusterError(f"{component.name} cannot be started: {error}") from error
        self._children[process.pid] = (component, process)
        return process.pid

    def _wait(self, timeout_s: float | None) -> None:
        """Until a signal arrives or the time is over; then collects every process that has ended."""
        received = (
            signal.sigwaitinfo(WATCHED) if timeout_s is None else signal.sigtimedwait(WATCHED, timeout_s)
        )
        if received and received.si_signo == signal.SIGTERM:
            sys.exit(0)
        if received and received.si_signo == RESTART:
            self._restart()
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._collect(*ended)

    def _collect(self, pid: int, status: int) -> None:
        if pid not in self._children:
            return
        component, process = self._children.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        state = self.state.components[component.name]
        if component.once and code == 0:
            self._set_ready(state)
            return
        state.status = Status.DEAD
        state.ended = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        self.state.write(self.where)

    def _describe_delay(self) -> str:
        waiting = [name for name, state in self.state.components.items() if state.status is Status.STARTING]
        tails = "\n".join(f"{name}:\n{tail(self.where, name)}" for name in waiting)
        return f"not ready after {START_WITHIN_S:.0f} s: {', '.join(waiting)}. The ends of the logs:\n{tails}"


def _holds(component: Component) -> bool:
    try:
        return component.ready()
    except (OSError, ApiError):
        return False


def main(path: str) -> None:
    settings = Settings.model_validate_json(Path(path).read_text())
    if settings.privileged:
        cgroups.join(settings.layout.cgroup)
    namespaces.leave_the_machine(user_namespace=not settings.privileged)
    if first := os.fork():
        sys.stdout.write(f"{first}\n")
        return
    _run_as_first(settings)


def _run_as_first(settings: Settings) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    log = os.open(settings.layout.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    supervisor: Supervisor | None = None
    try:
        namespaces.furnish(settings)
        supervisor = Supervisor(settings)
        supervisor.start()
        supervisor.watch()
    except ClusterError as error:
        state = supervisor.state if supervisor else State(components={})
        state.phase, state.failure = Phase.FAILED, str(error)
        state.write(settings.layout)
    # Every process of the namespaces ends with this one.
    sys.exit(1)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ClusterError as error:
        sys.exit(str(error))
