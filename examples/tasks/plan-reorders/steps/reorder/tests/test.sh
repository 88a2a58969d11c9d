#!/bin/bash
# The verifier runs where the agent worked, so it trusts nothing there but python3: what is right is in /tests.
set -u
mkdir -p /logs/verifier
if python3 -I /tests/check.py; then reward=1; else reward=0; fi
printf '%s\n' "$reward" > /logs/verifier/reward.txt
