"""What this machine tells package clients in a build: certificate bundle, index addresses, proxies.

It goes into a build as two secrets, `ca` and `env`, and never into an image.
"""

import configparser
import json
import os
import shlex
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

_PASSED_ON = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
_PIP_CONFIG = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
}
_GO_SETTINGS = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE")
_CA_IN_BUILD = "/run/secrets/ca"
_CA_CONSUMERS = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")


def certificate_bundle() -> Path | None:
    """The bundle that this machine's clients trust: `$SSL_CERT_FILE`, or the system's."""
    candidates = [
        os.environ.get("SSL_CERT_FILE"),
        ssl.get_default_verify_paths().cafile,
        "/etc/ssl/certs/ca-certificates.crt",
    ]
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def build_environment(with_bundle: bool) -> str:
    """Shell lines for the secret `env`; `with_bundle` says whether the secret `ca` is given too."""
    settings = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    settings = {**_pip_configuration(), **_go_configuration(), **settings}
    settings["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    settings["PIP_ROOT_USER_ACTION"] = "ignore"
    if with_bundle:
        settings |= dict.fromkeys(_CA_CONSUMERS, _CA_IN_BUILD)
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(settings.items()))


def _pip_configuration() -> Mapping[str, str]:
    home = Path.home()
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    if named := os.environ.get("PIP_CONFIG_FILE"):
        files.append(Path(named))
    parser = configparser.RawConfigParser()
    parser.read(files)
    settings = {}
    for section in ("global", "install"):
        for key, variable in _PIP_CONFIG.items():
            if parser.has_option(section, key):
                settings[variable] = " ".join(parser.get(section, key).split())
    return settings


def _go_configuration() -> Mapping[str, str]:
    if shutil.which("go") is None:
        return {}
    answer = subprocess.run(
        ["go", "env", "-json", *_GO_SETTINGS], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        return {}
    return {name: value for name, value in json.loads(answer.stdout).items() if value}
