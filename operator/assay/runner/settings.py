"""What the pod tells the runner: the try spec, who the pod is, and where things lie."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from assay.api.base import first_problem
from assay.api.ledgerfile import VerifierMode
from assay.api.tryspec import TrySpec


class SettingsError(RuntimeError):
    """The pod's environment or try spec is unusable; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the runner finds and leaves things. All but `work` may be missing in a test."""

    work: Path
    try_spec: Path
    token: Path
    environment_socket: Path
    verifier_socket: Path
    termination_log: Path
    ledger_pin: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Paths":
        def path(name: str, default: str) -> Path:
            return Path(environment.get(name) or default)

        return cls(
            work=path("ASSAY_WORK", "/work"),
            try_spec=path("ASSAY_TRY_SPEC", "/etc/assay/try.json"),
            token=path("ASSAY_TOKEN_FILE", "/var/run/assay/token"),
            environment_socket=path("ASSAY_ENVIRONMENT_SOCKET", "/sock/environment/s"),
            verifier_socket=path("ASSAY_VERIFIER_SOCKET", "/sock/verifier/s"),
            termination_log=path("TERMINATION_LOG", "/dev/termination-log"),
            ledger_pin=path("ASSAY_LEDGER_PIN", "/opt/assay/ledger.pin"),
        )

    @property
    def state(self) -> Path:
        return self.work / ".assay"

    @property
    def task(self) -> Path:
        return self.work / "task"

    @property
    def artifacts(self) -> Path:
        """What crossed to the verifier of the try that is judged again."""
        return self.work / "artifacts"

    @property
    def artifacts_archive(self) -> Path:
        """The same as one file, on its way from or into the evidence."""
        return self.work / "artifacts.tar"

    @property
    def trials(self) -> Path:
        return self.work / "trials"

    @property
    def trial(self) -> Path:
        return self.trials / "trial"

    @property
    def calls(self) -> Path:
        return self.work / "calls"

    @property
    def tampered(self) -> Path:
        return self.work / "tampered"

    @property
    def agent_logs(self) -> Path:
        """Copy of the agent's log folder, as its container had it a moment ago."""
        return self.work / "agent-logs"

    @property
    def log(self) -> Path:
        return self.work / "runner.log"


@dataclass(frozen=True, slots=True)
class Pod:
    """The attempt pod as the runner sees it."""

    spec: TrySpec
    name: str
    uid: str
    paths: Paths
    model_gateway_port: int
    pending_seconds: int
    forbidden_address: str | None
    api_server: str | None
    commit: str | None
    live_upload_seconds: int
    """Between two uploads of what the agent has written so far."""

    @property
    def separate(self) -> bool:
        return self.spec.task.verifier_mode is VerifierMode.SEPARATE

    @property
    def siblings(self) -> tuple[Path | None, Path | None]:
        """Sockets of the environment and of the verifier, where the pod has them."""
        paths = self.paths
        environment = None if self.spec.verify_only else paths.environment_socket
        return environment, paths.verifier_socket if self.separate else None


def load_pod(environment: Mapping[str, str] = os.environ) -> Pod:
    """Read everything that the pod gives the runner. Raises SettingsError."""
    paths = Paths.from_environment(environment)
    api_host = environment.get("KUBERNETES_SERVICE_HOST")
    api_port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return Pod(
        spec=_read_spec(paths.try_spec),
        name=_required(environment, "POD_NAME"),
        uid=_required(environment, "POD_UID"),
        paths=paths,
        model_gateway_port=_number(environment, "ASSAY_MODEL_GATEWAY_PORT", 8900),
        pending_seconds=_number(environment, "ASSAY_PENDING_SECONDS", 3600),
        forbidden_address=environment.get("ASSAY_FORBIDDEN_ADDRESS") or None,
        api_server=f"{_bracketed(api_host)}:{api_port}" if api_host else None,
        commit=environment.get("ASSAY_COMMIT") or None,
        live_upload_seconds=_number(environment, "ASSAY_LIVE_UPLOAD_SECONDS", 30),
    )


def _read_spec(path: Path) -> TrySpec:
    try:
        return TrySpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(
            f"cannot read the try spec {path}: {error.strerror}; is the volume mounted?"
        ) from error
    except ValidationError as error:
        raise SettingsError(f"the try spec {path} is invalid: {first_problem(error)}") from error


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise SettingsError(f"environment variable {name} is not set; the pod sets it by the downward API")
    return value


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name)
    if not value:
        return default
    if not value.isdecimal():
        raise SettingsError(f"environment variable {name} must be a whole number, not {value!r}")
    return int(value)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
