"""Certificates of one cluster, made anew at each start and valid for 30 days."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from localcluster import layout
from localcluster.errors import ClusterError

DAYS = "30"


class Authority:
    """A certificate authority in a folder; every file is `<name>.crt` or `<name>.key` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._openssl(
            "req", "-x509", *self._new_key("ca"), "-out", "ca.crt",
            "-days", DAYS, "-subj", "/CN=assay-local-cluster",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,digitalSignature",
        )  # fmt: skip

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, subject: str, *alternative_names: str) -> None:
        """Signs a certificate; `subject` is openssl's form, such as /O=system:masters/CN=admin."""
        # Python 3.13 verifies strictly and refuses a certificate without an authority key identifier.
        extensions = [
            "authorityKeyIdentifier=keyid",
            "subjectKeyIdentifier=hash",
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=critical,digitalSignature",
            "extendedKeyUsage=clientAuth,serverAuth",
        ]
        if alternative_names:
            extensions.append(f"subjectAltName={','.join(alternative_names)}")
        (self.folder / f"{name}.ext").write_text("\n".join(extensions) + "\n")
        self._openssl("req", *self._new_key(name), "-out", f"{name}.csr", "-subj", subject)
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", DAYS, "-out", f"{name}.crt", "-extfile", f"{name}.ext",
        )  # fmt: skip

    def issue_key(self, name: str) -> None:
        """Makes a bare key pair, as service account tokens are signed with."""
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    @staticmethod
    def _new_key(name: str) -> list[str]:
        return [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            f"{name}.key",
        ]

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ClusterError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def issue_all(where: layout.Layout) -> None:
    """Makes the certificates and kubeconfigs of all components."""
    authority = Authority(where.pki)
    addresses = ("127.0.0.1", layout.NODE_IP, layout.API_SERVICE_IP)
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    authority.issue(
        "apiserver",
        "/CN=kube-apiserver",
        *(f"IP:{ip}" for ip in addresses),
        *(f"DNS:{name}" for name in names),
    )
    authority.issue("admin", "/O=system:masters/CN=admin")
    authority.issue("kube-controller-manager", "/CN=system:kube-controller-manager")
    authority.issue("kube-scheduler", "/CN=system:kube-scheduler")
    authority.issue("kube-proxy", "/CN=system:kube-proxy")
    node = f"system:node:{layout.NODE_NAME}"
    authority.issue(
        "kubelet", f"/O=system:nodes/CN={node}", f"IP:{layout.NODE_IP}", f"DNS:{layout.NODE_NAME}"
    )
    authority.issue_key("service-account")
    for user in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"):
        _write_kubeconfig(where, where.conf / f"{user}.kubeconfig", user)
    _write_kubeconfig(where, where.kubeconfig, "admin")


def _write_kubeconfig(where: layout.Layout, path: Path, user: str) -> None:
    """JSON, which is YAML: no dependency, no quoting to get wrong."""
    cluster = {
        "server": f"https://127.0.0.1:{layout.API_PORT}",
        "certificate-authority": str(where.pki / "ca.crt"),
    }
    credentials = {
        "client-certificate": str(where.pki / f"{user}.crt"),
        "client-key": str(where.pki / f"{user}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "assay-local", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "assay-local", "context": {"cluster": "assay-local", "user": user}}],
        "current-context": "assay-local",
    }
    path.write_text(json.dumps(config, indent=2) + "\n")
    path.chmod(0o600)
