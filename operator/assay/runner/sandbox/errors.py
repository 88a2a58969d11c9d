"""What can go wrong between the runner and sandboxd."""


class SandboxError(RuntimeError):
    """A request to sandboxd failed; the base of all the others."""


class SandboxLost(SandboxError):
    """The container, its PID 1 or the connection is gone. Nothing more can be done in this sandbox."""


class SandboxNotReady(SandboxLost):
    """sandboxd did not answer within the time given to `SandboxClient.wait_ready`."""


class SandboxRequestError(SandboxError):
    """The request cannot work in this container: unknown user, no shell, no such directory, bad field."""


class SandboxPathNotFound(SandboxError):
    """The path to download does not exist, or is not of the kind asked for."""


class SandboxTransferError(SandboxError):
    """A file or directory did not arrive whole. Nothing of it counts as transferred."""


class SandboxTooLarge(SandboxError):
    """A limit was reached: of the request, of the disk, or of the processes in the container."""


class SandboxPhaseEnded(SandboxError):
    """`SandboxClient.end_phase` killed the command while it ran."""
