"""Pure functions: no input, no output, no clock of their own."""
