"""Where the API server is and who we are: a pod's service account, else the current context of KUBECONFIG."""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
    certificate_data: str | None = None
    key_data: str | None = None
    namespace: str = "default"

    def bearer(self) -> str | None:
        """The token to send now; None with a client certificate."""
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


def load_kube_config(environ: Mapping[str, str] | None = None) -> KubeConfig:
    """The service account of this pod, or the current context of the first file in KUBECONFIG."""
    env = os.environ if environ is None else environ
    host = env.get("KUBERNETES_SERVICE_HOST")
    if host and (SERVICE_ACCOUNT / "token").exists():
        address = f"[{host}]" if ":" in host else host
        return KubeConfig(
            server=f"https://{address}:{env.get('KUBERNETES_SERVICE_PORT', '443')}",
            ca_data=(SERVICE_ACCOUNT / "ca.crt").read_text(),
            token_file=SERVICE_ACCOUNT / "token",
            namespace=(SERVICE_ACCOUNT / "namespace").read_text().strip(),
        )
    listed = env.get("KUBECONFIG") or str(Path(env.get("HOME", "/root")) / ".kube" / "config")
    path = Path(listed.split(os.pathsep)[0])
    if not path.exists():
        raise KubeConfigError(f"not in a pod, and {path} does not exist: set KUBECONFIG")
    return _from_file(path)


def _from_file(path: Path) -> KubeConfig:
    document = yaml.safe_load(path.read_text())
    try:
        context = _named(document["contexts"], document["current-context"], "context")
        cluster = _named(document["clusters"], context["cluster"], "cluster")
        user = _named(document["users"], context["user"], "user")
    except (KeyError, TypeError) as error:
        raise KubeConfigError(f"{path}: no complete current context ({error})") from error
    if "exec" in user or "auth-provider" in user:
        raise KubeConfigError(f"{path}: credentials by plugin are not supported; use a token or certificate")
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
