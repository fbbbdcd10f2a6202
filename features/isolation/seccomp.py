"""The system calls that are left to a child, as a seccomp filter (classic BPF), for x86_64 and aarch64.

It is an allow-list: what is not named ends the process, so nothing can wait, communicate, start anything or be
remembered. What harmless code asks in passing (a file's presence, its own number, a handler for a signal) is
answered by a constant instead. Deaths are by SIGSYS (`limits` gives it `_exit`), which, unlike the kernel's own
kill, leaves no line in the system's log.

Source: seccomp(2); linux/filter.h, linux/audit.h, asm/unistd_64.h and asm-generic/unistd.h.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

RESULT_FD = 3  # the only file of a child
RESULT_BYTES = 8

_ALLOW, _TRAP, _ERRNO = 0x7FFF0000, 0x00030000, 0x00050000
_LOAD, _AND, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SHARED, _MAP_LOCKED, _HUGE = 0x1, 0x2000, 0x40000  # mmap: what other processes could notice
_MAP_DROPPABLE = 0x8  # mmap: pages that vanish when memory runs short, which other records may bring about
_PROT_EXEC = 0x4  # mmap, mprotect: instructions supplied by the user, such as those that feel another core at work
_WAKE, _FUTEX_COMMAND = 1, 0x7F
_ADVICE = (0, 1, 2, 3, 4, 14, 15)  # supplied by the user pages: NORMAL … DONTNEED, HUGEPAGE, NOHUGEPAGE
_ADVICE_FREE = 8  # such pages vanish too: it is answered, and they stay
_NR_SECCOMP_MODE_FILTER, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 2, 22, 38

_ARCHITECTURE_NAMES = ("x86_64", "aarch64")
_NUMBERS = {  # name: its number on each
    name: dict(zip(_ARCHITECTURE_NAMES, numbers, strict=True))
    for name, numbers in {
        "write": (1, 64),
        "mmap": (9, 222),
        "madvise": (28, 233),
        "futex": (202, 98),
        "mprotect": (10, 226),
        "munmap": (11, 215),
        "brk": (12, 214),
        "mremap": (25, 216),
        "rt_sigprocmask": (14, 135),
        "rt_sigreturn": (15, 139),
        "exit": (60, 93),
        "exit_group": (231, 94),
        "getrandom": (318, 278),
        "sched_yield": (24, 124),
        "rt_sigaction": (13, 134),
        "sigaltstack": (131, 132),
        "close": (3, 57),
        "getpid": (39, 172),
        "gettid": (186, 178),
        "getppid": (110, 173),
        "getuid": (102, 174),
        "geteuid": (107, 175),
        "getgid": (104, 176),
        "getegid": (108, 177),
        "set_robust_list": (273, 99),
        "mbind": (237, 235),
        "get_mempolicy": (239, 236),
        "shmget": (29, 194),
        "clone": (56, 220),
        "clone3": (435, 435),
        "fork": (57, None),
        "vfork": (58, None),
        "open": (2, None),
        "stat": (4, None),
        "lstat": (6, None),
        "access": (21, None),
        "readlink": (89, None),
        "openat": (257, 56),
        "openat2": (437, 437),
        "newfstatat": (262, 79),
        "fstat": (5, 80),
        "statx": (332, 291),
        "faccessat": (269, 48),
        "faccessat2": (439, 439),
        "readlinkat": (267, 78),
        "getcwd": (79, 17),
        "getdents64": (217, 61),
        "ioctl": (16, 29),
        "fcntl": (72, 25),
        "lseek": (8, 62),
        "uname": (63, 160),
        "sysinfo": (99, 179),
        "getrusage": (98, 165),
        "times": (100, 153),
        "clock_gettime": (228, 113),
        "clock_getres": (229, 114),
        "gettimeofday": (96, 169),
        "time": (201, None),
        "sched_getaffinity": (204, 123),
        "prlimit64": (302, 261),
        "prctl": (157, 167),
        "rseq": (334, 293),
        "membarrier": (324, 283),
    }.items()
}
_ALLOWED_CALLS = (
    *("munmap", "brk", "mremap", "rt_sigreturn", "exit", "exit_group"),
    "getrandom",  # coins supplied by the user: independent of every other record
)
_ZERO_CALLS = (
    *("sched_yield", "rt_sigaction", "rt_sigprocmask", "sigaltstack", "close", "set_robust_list"),
    *("getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid"),
)
_CLOCK_CALLS = ("clock_gettime", "clock_getres", "gettimeofday", "time", "sysinfo", "times")
_REFUSED_CALLS = (
    *_CLOCK_CALLS,
    *("clone", "clone3", "fork", "vfork"),  # harmless code that wants a thread hears that there is none
    *("open", "stat", "lstat", "access", "readlink", "openat", "openat2", "newfstatat", "fstat", "statx"),
    *("faccessat", "faccessat2", "readlinkat", "getcwd", "getdents64", "ioctl", "fcntl", "lseek", "uname"),
    *("mbind", "get_mempolicy", "shmget"),  # linear algebra asks where its memory is, or for other memory
    *("getrusage", "sched_getaffinity", "prlimit64", "prctl", "rseq", "membarrier"),
)


def supported() -> bool:
    """Return whether the system call numbers in this file are this machine's."""
    return platform.machine() in _ARCHITECTURES and struct.calcsize("P") == 8


class Filter:
    """A filter, in memory: a child only hands it to the kernel."""

    def __init__(self, code: bytes) -> None:
        self._libc = ctypes.PyDLL(None)
        self._prctl = self._libc.prctl
        self._prctl.argtypes, self._prctl.restype = [ctypes.c_ulong] * 5, ctypes.c_int
        self._code = ctypes.create_string_buffer(code, len(code))
        self._fprog = ctypes.create_string_buffer(
            struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(self._code))
        )
        self._address = ctypes.addressof(self._fprog)

    def install(self) -> bool:
        """Restrict this process to the allowed system calls for good; True if the kernel took the filter."""
        done = self._prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(done == 0 and self._prctl(_PR_SET_SECCOMP, _NR_SECCOMP_MODE_FILTER, self._address, 0, 0) == 0)


def no_clocks(machine: str) -> bytes:
    """The seccomp filter of the process that children are forked from: it refuses clocks, and allows all else."""
    lines = [*_load_at(_ARCHITECTURE), *_unless(_ARCHITECTURES[machine], [_return(_TRAP)]), *_load_at(_NUMBER)]
    for number in _call_numbers(_CLOCK_CALLS, machine):
        lines += _if(number, [_return(_ERRNO | errno.EACCES)])
    return b"".join([*lines, _return(_ALLOW)])


def program(machine: str) -> bytes:
    """The seccomp filter of a child that scores one record, as BPF for "x86_64" or "aarch64", 8 bytes each."""
    lines = [*_load_at(_ARCHITECTURE), *_unless(_ARCHITECTURES[machine], [_return(_TRAP)]), *_load_at(_NUMBER)]
    for names, answer in ((_ALLOWED_CALLS, _ALLOW), (_ZERO_CALLS, _ERRNO), (_REFUSED_CALLS, _ERRNO | errno.EACCES)):
        for number in _call_numbers(names, machine):
            lines += _if(number, [_return(answer)])
    for name, body in _checked().items():
        for number in _call_numbers([name], machine):
            lines += _if(number, body)
    return b"".join([*lines, _return(_TRAP)])


def _checked() -> dict[str, list[bytes]]:
    """Return the system calls allowed with some arguments only, each with the BPF instructions that check these."""
    fd, n_bytes = _argument(0), _argument(2)
    write = [
        *fd,
        *_unless(RESULT_FD, [_return(_ERRNO | errno.EBADF)]),
        *n_bytes,
        *_unless(RESULT_BYTES, [_return(_ERRNO | errno.EBADF)]),
        _return(_ALLOW),
    ]
    refused = _return(_ERRNO | errno.ENOMEM)
    denied = _return(_ERRNO | errno.EACCES)
    code = [*_argument(2), _instruction(_ANY_BIT, _PROT_EXEC, 0, 1), denied]
    mmap = [
        *code,
        *_argument(3),
        _instruction(_ANY_BIT, _SHARED | _MAP_DROPPABLE | _MAP_LOCKED | _HUGE, 0, 1),
        refused,
        *_argument(4),
        *_unless(0xFFFFFFFF, [refused]),
        _return(_ALLOW),
    ]
    madvise = [*_argument(2), *(line for a in _ADVICE for line in _if(a, [_return(_ALLOW)]))]
    madvise += _if(_ADVICE_FREE, [_return(_ERRNO)])
    madvise.append(_return(_ERRNO | errno.EINVAL))
    futex = [*_argument(1), _instruction(_AND, _FUTEX_COMMAND), *_if(_WAKE, [_return(_ALLOW)]), _return(_TRAP)]
    mprotect = [*code, _return(_ALLOW)]
    return {"write": write, "mmap": mmap, "mprotect": mprotect, "madvise": madvise, "futex": futex}


def _call_numbers(names: Iterable[str], machine: str) -> list[int]:
    return [number for name in names if (number := _NUMBERS[name][machine]) is not None]


def _instruction(code: int, k: int, jump: int = 0, otherwise: int = 0) -> bytes:
    """Return one BPF instruction, 8 bytes; a test skips `jump` instructions if true, `otherwise` if false."""
    return struct.pack("HBBI", code, jump, otherwise, k)


def _load_at(offset: int) -> list[bytes]:
    return [_instruction(_LOAD, offset)]


def _argument(index: int) -> list[bytes]:
    """BPF instructions that load the low half of argument `index`: sizes and flags are ints."""
    return _load_at(_ARGUMENTS + 8 * index)


def _return(answer: int) -> bytes:
    return _instruction(_RETURN, answer)


def _if(value: int, body: list[bytes]) -> list[bytes]:
    """BPF instructions that run `body` if the loaded word is `value`."""
    return [_instruction(_EQUAL, value, 0, len(body)), *body]


def _unless(value: int, body: list[bytes]) -> list[bytes]:
    """BPF instructions that run `body` if the loaded word is not `value`."""
    return [_instruction(_EQUAL, value, len(body), 0), *body]
