"""The one exception that the command line turns into a message instead of a traceback."""


class ClusterError(Exception):
    """Something that the user can act on; its text says what failed and what to do."""
