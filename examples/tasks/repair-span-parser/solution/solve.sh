#!/bin/bash
set -eu
cd /app
git apply "$(dirname "$0")/solution.patch"
