#!/bin/bash
# Runs in a pristine copy of the image. Of the agent's work only the patch arrives, and of the patch only
# what it does to the package: tests or start-up files that it brings along cannot speak for it.
set -u
verdict() { printf '%s\n' "$1" > /logs/verifier/reward.txt; exit 0; }

mkdir -p /logs/verifier
cd /app || exit 1
# No verdict at all if this is not the base commit: that would be the image's fault, not the agent's.
[ "$(git rev-parse HEAD)" = c76164f75b3d83eb6d318a8f907022941039b9c9 ] || exit 1
[ -z "$(git status --porcelain)" ] || exit 1

patch=/logs/artifacts/model.patch
[ -s "$patch" ] || verdict 0
git apply --include='spans/*' "$patch" || verdict 0
cp /tests/*_hidden.py tests/ || exit 1

python3 -m unittest discover -s tests -t . -v && verdict 1
verdict 0
