#!/bin/bash
# Runs in a fresh copy of the image; of the agent's work only the answer arrives.
set -u
mkdir -p /logs/verifier
if python3 -I /tests/grade.py; then reward=1; else reward=0; fi
printf '%s\n' "$reward" > /logs/verifier/reward.txt
