from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    KIND_FILE: _ClassVar[Kind]
    KIND_TAR: _ClassVar[Kind]
KIND_UNSPECIFIED: Kind
KIND_FILE: Kind
KIND_TAR: Kind

class ExecRequest(_message.Message):
    __slots__ = ("argv", "script", "env", "cwd", "user", "timeout_ms", "call_id")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    argv: Argv
    script: str
    env: _containers.ScalarMap[str, str]
    cwd: str
    user: str
    timeout_ms: int
    call_id: str
    def __init__(self, argv: _Optional[_Union[Argv, _Mapping]] = ..., script: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., user: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., call_id: _Optional[str] = ...) -> None: ...

class Argv(_message.Message):
    __slots__ = ("args",)
    ARGS_FIELD_NUMBER: _ClassVar[int]
    args: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, args: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecReply(_message.Message):
    __slots__ = ("started", "stdout", "stderr", "exit")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    started: Started
    stdout: bytes
    stderr: bytes
    exit: Exit
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("pid",)
    PID_FIELD_NUMBER: _ClassVar[int]
    pid: int
    def __init__(self, pid: _Optional[int] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("code", "signal", "timed_out", "oom_killed")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    OOM_KILLED_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: int
    timed_out: bool
    oom_killed: bool
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[int] = ..., timed_out: _Optional[bool] = ..., oom_killed: _Optional[bool] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("call_id", "signal")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    signal: int
    def __init__(self, call_id: _Optional[str] = ..., signal: _Optional[int] = ...) -> None: ...

class SignalReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndPhaseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndPhaseReply(_message.Message):
    __slots__ = ("killed",)
    KILLED_FIELD_NUMBER: _ClassVar[int]
    killed: int
    def __init__(self, killed: _Optional[int] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseReply(_message.Message):
    __slots__ = ("paused",)
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    paused: int
    def __init__(self, paused: _Optional[int] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UploadRequest(_message.Message):
    __slots__ = ("header", "chunk", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: UploadHeader
    chunk: bytes
    end: End
    def __init__(self, header: _Optional[_Union[UploadHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class UploadHeader(_message.Message):
    __slots__ = ("path", "kind", "mode", "user", "expected_size")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SIZE_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: Kind
    mode: int
    user: str
    expected_size: int
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[Kind, str]] = ..., mode: _Optional[int] = ..., user: _Optional[str] = ..., expected_size: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("size", "sha256", "skipped")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    size: int
    sha256: bytes
    skipped: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., skipped: _Optional[_Iterable[str]] = ...) -> None: ...

class UploadReply(_message.Message):
    __slots__ = ("size",)
    SIZE_FIELD_NUMBER: _ClassVar[int]
    size: int
    def __init__(self, size: _Optional[int] = ...) -> None: ...

class DownloadRequest(_message.Message):
    __slots__ = ("path", "kind", "max_size")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: Kind
    max_size: int
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[Kind, str]] = ..., max_size: _Optional[int] = ...) -> None: ...

class DownloadReply(_message.Message):
    __slots__ = ("header", "chunk", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: DownloadHeader
    chunk: bytes
    end: End
    def __init__(self, header: _Optional[_Union[DownloadHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class DownloadHeader(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: int
    def __init__(self, mode: _Optional[int] = ...) -> None: ...

class StatRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatReply(_message.Message):
    __slots__ = ("version", "pid", "calls", "processes", "memory_limit_bytes", "memory_used_bytes", "kernel_oom_kills", "memory_kills", "own_rss_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KILLS_FIELD_NUMBER: _ClassVar[int]
    OWN_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: str
    pid: int
    calls: int
    processes: int
    memory_limit_bytes: int
    memory_used_bytes: int
    kernel_oom_kills: int
    memory_kills: _containers.RepeatedCompositeFieldContainer[MemoryKill]
    own_rss_bytes: int
    def __init__(self, version: _Optional[str] = ..., pid: _Optional[int] = ..., calls: _Optional[int] = ..., processes: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ..., memory_used_bytes: _Optional[int] = ..., kernel_oom_kills: _Optional[int] = ..., memory_kills: _Optional[_Iterable[_Union[MemoryKill, _Mapping]]] = ..., own_rss_bytes: _Optional[int] = ...) -> None: ...

class MemoryKill(_message.Message):
    __slots__ = ("unix_ms", "pid", "command", "rss_bytes", "used_bytes", "limit_bytes", "call_id")
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    unix_ms: int
    pid: int
    command: str
    rss_bytes: int
    used_bytes: int
    limit_bytes: int
    call_id: str
    def __init__(self, unix_ms: _Optional[int] = ..., pid: _Optional[int] = ..., command: _Optional[str] = ..., rss_bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., call_id: _Optional[str] = ...) -> None: ...

class QuitRequest(_message.Message):
    __slots__ = ("code",)
    CODE_FIELD_NUMBER: _ClassVar[int]
    code: int
    def __init__(self, code: _Optional[int] = ...) -> None: ...

class QuitReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
