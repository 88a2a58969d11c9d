"""The figures that README quotes, each printed by the command that measures it."""
