"""Where the API server is and who we are: a pod's service account, else a context of KUBECONFIG."""

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REQUEST_SECONDS = 30.0
"""How long a request to the API server may take where nobody says otherwise."""


class KubeConfigError(Exception):
    """There is no usable way to the API server; the message names what is missing."""


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """Address and credentials. A token in a file is read anew for each request: the kubelet replaces it."""

    server: str
    ca_data: str | None = None
    """PEM certificates of the authority; None = the machine's own."""
    token: str | None = None
    token_file: Path | None = None
    token_source: Callable[[], str | None] | None = None
    """Gives the token to send now; None = `token` or `token_file`."""
    certificate_data: str | None = None
    key_data: str | None = None
    namespace: str = "default"

    def bearer(self) -> str | None:
        """The token to send now; None with a client certificate."""
        if self.token_source is not None:
            return self.token_source()
        return self.token_file.read_text().strip() if self.token_file else self.token

    def ssl_context(self) -> ssl.SSLContext:
        """The TLS settings for the API server."""
        context = ssl.create_default_context(cadata=self.ca_data)
        if self.certificate_data and self.key_data:
            # The ssl module loads client certificates from files only.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(f"{self.certificate_data}\n{self.key_data}\n")
                file.flush()
                context.load_cert_chain(file.name)
        return context


def load_kube_config(
    environ: Mapping[str, str] | None = None, *, kubeconfig: Path | None = None, context: str | None = None
) -> KubeConfig:
    """The named file or context, else the service account of this pod, else KUBECONFIG's current context.

    Raises KubeConfigError.
    """
    env = os.environ if environ is None else environ
    host = env.get("KUBERNETES_SERVICE_HOST")
    if kubeconfig is None and context is None and host and (SERVICE_ACCOUNT / "token").exists():
        address = f"[{host}]" if ":" in host else host
        return KubeConfig(
            server=f"https://{address}:{env.get('KUBERNETES_SERVICE_PORT', '443')}",
            ca_data=(SERVICE_ACCOUNT / "ca.crt").read_text(),
            token_file=SERVICE_ACCOUNT / "token",
            namespace=(SERVICE_ACCOUNT / "namespace").read_text().strip(),
        )
    listed = env.get("KUBECONFIG") or str(Path(env.get("HOME", "/root")) / ".kube" / "config")
    paths = [kubeconfig] if kubeconfig else [Path(one) for one in listed.split(os.pathsep) if one]
    found = [path for path in paths if path.exists()]
    if not found:
        where = os.pathsep.join(map(str, paths))
        raise KubeConfigError(f"not in a pod, and {where} does not exist: set KUBECONFIG")
    if len(found) > 1:
        return _by_official_client(os.pathsep.join(map(str, found)), context)
    return _from_file(found[0], context)


def _from_file(path: Path, wanted: str | None) -> KubeConfig:
    try:
        document = yaml.safe_load(path.read_text())
        context = _named(document["contexts"], wanted or document["current-context"], "context")
        cluster = _named(document["clusters"], context["cluster"], "cluster")
        user = _named(document["users"], context["user"], "user")
    except (OSError, yaml.YAMLError) as error:
        raise KubeConfigError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        which = f"context {wanted}" if wanted else "complete current context"
        raise KubeConfigError(f"{path}: no {which} ({error})") from error
    if "exec" in user or "auth-provider" in user:
        return _by_official_client(str(path), wanted)
    token_file = user.get("tokenFile")
    return KubeConfig(
        server=str(cluster["server"]).rstrip("/"),
        ca_data=_data(path, cluster, "certificate-authority"),
        token=user.get("token"),
        token_file=path.parent / token_file if token_file else None,
        certificate_data=_data(path, user, "client-certificate"),
        key_data=_data(path, user, "client-key"),
        namespace=context.get("namespace") or "default",
    )


def _by_official_client(files: str, context: str | None) -> KubeConfig:
    """Merged files and credentials by plugin, which the official client knows; it takes long to import."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, list_kube_config_contexts
    from kubernetes.config import load_kube_config as load

    made = cast(Any, Configuration())  # Any: the type stubs lack what is used here.
    try:
        load(config_file=files, context=context, client_configuration=made, persist_config=False)
        contexts, current = list_kube_config_contexts(config_file=files)
    except ConfigException as error:
        raise KubeConfigError(f"{files}: {error}") from error
    chosen = next((one for one in contexts if one["name"] == context), current)

    def token() -> str | None:
        # Plugins give tokens of minutes: the official client runs them again when one has expired.
        value: str | None = made.get_api_key_with_prefix("BearerToken", alias="authorization")
        return value.removeprefix("Bearer ") if value else None

    return KubeConfig(
        server=str(made.host).rstrip("/"),
        ca_data=_text(made.ssl_ca_cert),
        token_source=token,
        certificate_data=_text(made.cert_file),
        key_data=_text(made.key_file),
        namespace=chosen["context"].get("namespace") or "default",
    )


def _text(path: str | None) -> str | None:
    return Path(path).read_text() if path else None


def _named(entries: list[Mapping[str, Any]], name: str, kind: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            found: Mapping[str, Any] = entry[kind]
            return found
    raise KeyError(f"{kind} {name}")


def _data(path: Path, entry: Mapping[str, Any], name: str) -> str | None:
    inline = entry.get(f"{name}-data")
    if inline:
        return base64.b64decode(inline).decode()
    file = entry.get(name)
    return (path.parent / file).read_text() if file else None
