"""The report of a run, and one attempt of it, as self-contained HTML pages. Text goes in, text comes out."""
