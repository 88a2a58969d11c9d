"""CLUSTER=current: the cluster of the current kubeconfig context, which is not ours to start and stop."""

from __future__ import annotations

import os

from localcluster.errors import ClusterError

#: Native sidecars are stable from here on.
OLDEST_MINOR = 33


def chosen() -> bool:
    """Whether CLUSTER=current is set. Raises ClusterError for any other value than that or `local`."""
    value = os.environ.get("CLUSTER", "local")
    if value not in {"", "local", "current"}:
        raise ClusterError(f"CLUSTER={value}: it is `local` (the default) or `current`")
    return value == "current"


def describe() -> str:
    """One line about the context. Raises ClusterError when it does not answer or is too old."""
    # Imported here: the client takes longer to load than all other commands take to run.
    from kubernetes import client, config
    from kubernetes.config.config_exception import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        context = config.list_kube_config_contexts()[1]
        config.load_kube_config()
        version = client.VersionApi().get_code(_request_timeout=10)
    except ConfigException as error:
        raise ClusterError(f"CLUSTER=current, but there is no usable kubeconfig: {error}") from error
    except (HTTPError, client.ApiException) as error:
        raise ClusterError(f"CLUSTER=current, but the context does not answer: {error}") from error
    minor = int("".join(filter(str.isdigit, version.minor)) or 0)
    if int(version.major) == 1 and minor < OLDEST_MINOR:
        raise ClusterError(
            f"context {context['name']} is Kubernetes {version.git_version}; 1.{OLDEST_MINOR} is needed"
        )
    return f"Using context {context['name']}: Kubernetes {version.git_version}"
