"""Regenerate the gRPC stubs of sandboxd, for Python and for Go, from images/sandboxd/proto/sandbox.proto.

    python scripts/generate_proto.py            writes them
    python scripts/generate_proto.py --check    fails if the ones that are checked in differ

In essence: `python -m grpc_tools.protoc -I assay/runner/sandbox=images/sandboxd/proto --python_out=operator
--pyi_out=operator --grpc_python_out=operator assay/runner/sandbox/sandbox.proto`, and the same with the Go
plugins that images/sandboxd/tools/go.mod pins.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANDBOXD = Path("images/sandboxd")
PYTHON_PACKAGE = "assay/runner/sandbox"
GO_MODULE = "assay.dev/sandboxd"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


def run_protoc(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], cwd=ROOT, check=True)


def generate_python(target: Path) -> None:
    output = target / "operator"
    output.mkdir(exist_ok=True)
    # protoc derives Python's import path from the path it is given: hence a virtual one.
    run_protoc(
        f"-I{PYTHON_PACKAGE}={SANDBOXD / 'proto'}",
        f"--python_out={output}",
        f"--pyi_out={output}",
        f"--grpc_python_out={output}",
        f"{PYTHON_PACKAGE}/sandbox.proto",
    )


def generate_go(target: Path) -> None:
    output = target / SANDBOXD
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        plugins = []
        for package in GO_PLUGINS:
            program = Path(folder) / package.rsplit("/", 1)[1]
            command = ["go", "build", "-o", str(program), package]
            subprocess.run(command, cwd=ROOT / SANDBOXD / "tools", check=True)
            plugins.append(f"--plugin={program}")
        run_protoc(
            *plugins,
            f"-I{SANDBOXD / 'proto'}",
            f"--go_out={output}",
            f"--go_opt=module={GO_MODULE}",
            f"--go-grpc_out={output}",
            f"--go-grpc_opt=module={GO_MODULE}",
            "sandbox.proto",
        )


def differing() -> list[str]:
    """The stubs in the checkout that are not what would be generated now."""
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name)
        generate_python(fresh)
        generate_go(fresh)
        files = [path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()]
        return sorted(
            str(path)
            for path in files
            if not (ROOT / path).is_file() or (ROOT / path).read_bytes() != (fresh / path).read_bytes()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    if not parser.parse_args().check:
        generate_python(ROOT)
        generate_go(ROOT)
    elif stale := differing():
        sys.exit(f"differ from images/sandboxd/proto/sandbox.proto: {', '.join(stale)}; run {sys.argv[0]}")


if __name__ == "__main__":
    main()
