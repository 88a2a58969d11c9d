"""The `run` command: signals first, then the pod's settings, then the try."""

import asyncio
import importlib
import logging
import os
from pathlib import Path

from assay.api.outcome import OutcomeClass
from assay.runner.stop import PodEnd

log = logging.getLogger(__name__)


def run() -> int:
    """Execute the try. Exit status 0 also when it failed: the manifest says how it ended, not the status."""
    end = PodEnd()
    asyncio.run(_run(end))
    return 0


async def _run(end: PodEnd) -> None:
    end.attach(asyncio.get_running_loop())
    # Imported here: a signal that comes meanwhile is already handled.
    from assay.runner.isolation import forbidden_addresses, probe_isolation
    from assay.runner.logs import configure_logs
    from assay.runner.settings import SettingsError, load_pod

    try:
        pod = load_pod()
    except SettingsError as error:
        await _unusable(end, str(error))
        return
    addresses = forbidden_addresses(pod.spec.task.network, pod.api_server, pod.forbidden_address)
    isolation = asyncio.ensure_future(probe_isolation(addresses))
    configure_logs(pod.paths.log, pod.spec.identity.job_name)
    pod.paths.state.mkdir(parents=True, exist_ok=True)
    (pod.paths.state / "pid").write_text(str(os.getpid()))
    _prepare_temporary_folder(pod.paths.work)
    attempt = await asyncio.to_thread(importlib.import_module, "assay.runner.attempt")
    await attempt.run_try(pod, end, isolation)


async def _unusable(end: PodEnd, reason: str) -> None:
    """Nothing can be run or recorded; end the pod so that the operator sees why."""
    from assay.runner.attempt import quit_siblings
    from assay.runner.settings import Paths
    from assay.runner.siblings import Siblings
    from assay.runner.termination import termination_message, write_termination_message

    logging.basicConfig(level=logging.INFO)
    log.error("%s", reason)
    paths = Paths.from_environment(os.environ)
    # The pod is named after its Job, with a suffix of the Job controller's.
    job_name = os.environ.get("POD_NAME", "unknown-x").rpartition("-")[0]
    message = termination_message(
        job_name, os.environ.get("POD_UID", ""), OutcomeClass.SETUP_FAILED, reason=reason
    )
    write_termination_message(paths.termination_log, message)
    end.over()
    environment, verifier = (
        socket if socket.parent.is_dir() else None
        for socket in (paths.environment_socket, paths.verifier_socket)
    )
    siblings = Siblings(environment, verifier)
    await quit_siblings(siblings, end)
    await siblings.close()


def _prepare_temporary_folder(work: Path) -> None:
    temporary = os.environ.get("TMPDIR")
    if temporary and Path(temporary).is_relative_to(work):
        Path(temporary).mkdir(parents=True, exist_ok=True)
