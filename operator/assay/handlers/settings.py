"""Settings of the operator process, from environment variables that the chart sets."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from assay.adapters.environment import EnvironmentSettings
from assay.api.base import DNSLabel, ImageByDigest

Port = Annotated[int, Field(ge=0, le=65535)]


class OperatorSettings(EnvironmentSettings):
    """Settings of the operator. The object store's are `S3Settings`, the API server's `KubeConfig`."""

    run_namespaces: Annotated[tuple[DNSLabel, ...], Field(min_length=1)] = Field(
        alias="ASSAY_RUN_NAMESPACES", description="Namespaces where runs live, separated by commas."
    )
    namespace: DNSLabel = Field(alias="POD_NAMESPACE", description="The operator's own; its Lease is there.")
    pod_uid: str = Field(alias="POD_UID", min_length=1, max_length=100, description="Identity in the Lease.")
    runner_image: ImageByDigest = Field(
        alias="ASSAY_RUNNER_IMAGE", description="Image of the container `runner`, by digest."
    )
    sandboxd_image: ImageByDigest = Field(
        alias="ASSAY_SANDBOXD_IMAGE", description="Image of the container `inject`, by digest."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", alias="ASSAY_LOG_LEVEL")
    listen: str = Field(default="0.0.0.0", alias="ASSAY_LISTEN")  # noqa: S104  a pod's own address
    health_port: Port = Field(default=8081, alias="ASSAY_HEALTH_PORT")
    metrics_port: Port = Field(default=9090, alias="ASSAY_METRICS_PORT")
    resync_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        default=10, alias="ASSAY_RESYNC_SECONDS", description="Longest time between passes over a live run."
    )
    jobs_per_second: Annotated[float, Field(ge=0.1, le=1000)] = Field(
        default=50,
        alias="ASSAY_JOBS_PER_SECOND",
        description="Most Jobs that all runs together make in a second.",
    )
    sweep_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=60,
        alias="ASSAY_SWEEP_SECONDS",
        description="Pause between searches for Jobs and pods that lost their owner.",
    )
    status_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        default=3,
        alias="ASSAY_STATUS_SECONDS",
        description="Shortest time between writes of a run's figures; conditions are written at once.",
    )

    @field_validator("run_namespaces", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value
