#!/bin/bash
set -eu
mkdir -p /logs/artifacts
cat > /logs/artifacts/answer.md <<'ANSWER'
1. `pick` in `larder/shelves.py`, called by `Larder.store`.
2. Spoiled jars go first, the one with the earliest `best_before` before the others. If none is spoiled, the
   jar without a note that was least recently read goes, by the smallest `read`.
3. Yes: a noted jar is thrown away once it is spoiled, since the note is looked at only among those that are
   not.
4. Storing is refused with `LarderFull` when no jar is spoiled and every jar is noted. A label that is
   already there is always replaced.
ANSWER
