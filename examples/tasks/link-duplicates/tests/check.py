"""Checks the archive's names, contents and links; exit status 0 if all are right."""

import hashlib
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

ARCHIVE = Path("/srv/archive")

expected: dict[str, str] = json.loads(Path("/tests/contents.json").read_text())
found = {str(path.relative_to(ARCHIVE)): path for path in ARCHIVE.rglob("*") if not path.is_dir()}
if found.keys() != expected.keys():
    sys.exit(f"names that are missing or new: {sorted(found.keys() ^ expected.keys())}")

inodes = defaultdict(set)
for name, path in found.items():
    if path.is_symlink():
        sys.exit(f"{name} is a symbolic link")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != expected[name]:
        sys.exit(f"{name} has another content than before")
    inodes[digest].add(os.stat(path).st_ino)

empty = hashlib.sha256(b"").hexdigest()
for digest, numbers in inodes.items():
    names = sorted(name for name in expected if expected[name] == digest)
    wanted = len(names) if digest == empty else 1
    if len(numbers) != wanted:
        sys.exit(f"{', '.join(names)}: {len(numbers)} files on the disk instead of {wanted}")
