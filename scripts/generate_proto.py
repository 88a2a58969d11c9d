"""Regenerate the gRPC stubs of sandboxd, for Python and for Go, from images/sandboxd/proto/sandbox.proto.

python scripts/generate_proto.py

In essence: `python -m grpc_tools.protoc -I assay/runner/sandbox=images/sandboxd/proto --python_out=operator
--pyi_out=operator --grpc_python_out=operator assay/runner/sandbox/sandbox.proto`, and the same with the Go
plugins that images/sandboxd/tools/go.mod pins.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANDBOXD = ROOT / "images" / "sandboxd"
PROTO_FOLDER = SANDBOXD / "proto"
PYTHON_PACKAGE = "assay/runner/sandbox"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


def run_protoc(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], cwd=ROOT, check=True)


def generate_python() -> None:
    # protoc derives Python's import path from the path it is given: hence a virtual one.
    run_protoc(
        f"-I{PYTHON_PACKAGE}={PROTO_FOLDER}",
        "--python_out=operator",
        "--pyi_out=operator",
        "--grpc_python_out=operator",
        f"{PYTHON_PACKAGE}/sandbox.proto",
    )


def generate_go() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plugins = []
        for package in GO_PLUGINS:
            program = Path(folder) / package.rsplit("/", 1)[1]
            subprocess.run(
                ["go", "build", "-o", program, package],
                cwd=SANDBOXD / "tools",
                check=True,
            )
            plugins.append(f"--plugin={program}")
        run_protoc(
            *plugins,
            f"-I{PROTO_FOLDER}",
            f"--go_out={SANDBOXD}",
            "--go_opt=module=assay.dev/sandboxd",
            f"--go-grpc_out={SANDBOXD}",
            "--go-grpc_opt=module=assay.dev/sandboxd",
            "sandbox.proto",
        )


if __name__ == "__main__":
    generate_python()
    generate_go()
