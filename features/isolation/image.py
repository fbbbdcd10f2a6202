"""The process that children are copies of: modules, one thread, nothing else.

It is a fresh interpreter with an environment of its own. It is told which modules to import and gets, once a
record, three open files which it hands to a copy of itself without reading them: the record, the pickled model, the
pipe for the result. So it never holds a record, and no estimator lives in it. How a child ended is not told to it
either: the kernel throws the status away. It ends when the curator's process does.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import platform
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from dpbo.features.isolation import child, limits, seccomp

MAX_MESSAGE_BYTES = 2**20
_N_FILES = 3
_CONTROL_FD = 3  # the lowest file that is free, so that whatever a module opens is above it
_SCOUT_LIMITS = limits.Limits(cpu_seconds=120, memory=2**32)


class _Hidden:
    """Finds no package of these names, before anyone else can."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def find_spec(self, name: str, *_: Any) -> None:
        """Fail the import of a hidden module, as Python's import hooks do; leave others to the next finder."""
        if name in self._names:
            raise ModuleNotFoundError(name=name)


class Image:
    """Serves one curator over a socket that keeps messages apart."""

    def __init__(self, control: socket.socket, cpu: int) -> None:
        self._control = control
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._exit = self._libc._exit  # libc's name for it
        self._filter: seccomp.Filter | None = None
        self._seconds = 0
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {cpu})  # a child sees on which it runs
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("500")

    def serve(self) -> None:
        """Serve the requests of the curator's process (load, score, try) until the socket is closed.

        Nothing else happens between requests: a timeout, for one, would change this process's memory, and later
        copies could read from it how long it had waited.
        """
        while True:
            message, files, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, _N_FILES)
            if not message:
                return
            if message == b"record":
                self._record(*files)
            elif message == b"trial":
                self._trial(*files)
            elif files:
                self._scout(json.loads(message)["hidden"], *files)
            else:
                self._load(json.loads(message))

    def _load(self, wanted: dict[str, Any]) -> None:
        """Import wanted["modules"] and prepare to fork; replies "" or why it could not, which is public."""
        sys.meta_path.insert(0, _Hidden(wanted["hidden"]))
        for name in wanted["modules"]:
            try:
                importlib.import_module(name)
            except BaseException as error:  # noqa: BLE001  modules may raise anything when they are imported
                if name in wanted["needed"]:
                    self._control.send(f"importing {name} failed with {type(error).__name__}".encode())
                    return
        child.rehearse()
        self._seconds = wanted["cpu_seconds"]
        self._control.send(self._prepare_to_fork(wanted["memory"]).encode())

    def _prepare_to_fork(self, memory: int) -> str:
        """Silence and limit this process and take its clocks, so that copies are confined; "" or why not."""
        limits.silence(self._libc)
        limits.close_files(above=_CONTROL_FD)
        if limits.threads() != 1:
            return "a module starts threads when it is imported"
        if limits.shared_memory():
            return "a module shares memory between processes when it is imported"
        if not seccomp.supported():
            return f"the system calls of {platform.machine()} are not known"
        self._copier = limits.Copier(platform.machine(), self._libc)
        self._filter = seccomp.Filter(seccomp.program(platform.machine()))
        blind = seccomp.Filter(seccomp.no_clocks(platform.machine()))
        if not (limits.take_the_clocks_away(self._libc) and blind.install()):
            return "the kernel does not take the clocks away, or has no seccomp"
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection in a child would write to every page
        limits.bound(memory)
        return ""

    def _record(self, *files: int) -> None:
        """Fork one child for the record, model and result in these open files, and wait for its end."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps, and forgets how it ended
        if self._copier.copy():
            self._be_a_child(*files)
        for fd in files:
            os.close(fd)
        with contextlib.suppress(ChildProcessError):
            os.wait()  # until there is none
        self._control.send(b"done")

    def _trial(self, *files: int) -> None:
        """Score a PUBLIC record, given as open files, in a forked copy, and report how the copy ended."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if self._copier.copy():
            self._be_a_child(*files)
        for fd in files:
            os.close(fd)
        _, status, usage = os.wait4(-1, 0)
        ending = {"exit": os.waitstatus_to_exitcode(status), "seconds": usage.ru_utime + usage.ru_stime}
        self._control.send(json.dumps(ending).encode())

    def _be_a_child(self, record: int, model: int, result: int) -> NoReturn:
        """Score the record as a confined child, write the score to `result`, and exit silently whatever happens."""
        try:
            child.live(record, model, result, self._confine)
            self._exit(0)
        except BaseException:  # noqa: BLE001, S110  nobody hears of it
            pass
        while True:
            self._exit(1)

    def _confine(self) -> bool:
        limits.bound_time(self._seconds, self._libc)
        return self._filter is not None and self._filter.install()

    def _scout(self, hidden: list[str], record: int, model: int, report: int) -> None:
        """Predict a PUBLIC record in this very process, not used again, and report what that imported."""
        sys.meta_path.insert(0, _Hidden(hidden))
        limits.bound_memory(_SCOUT_LIMITS.memory)
        limits.bound_time(_SCOUT_LIMITS.cpu_seconds, self._libc)
        try:
            child.steps(child.Record.of_file(record), *child.read_model(model))
            failure = ""
        except BaseException as error:  # noqa: BLE001  public: its message may be shown
            failure = "".join(traceback.format_exception_only(error)).strip()
        modules_and_failure = {
            "modules": [name for name, module in sys.modules.items() if module and "__" not in name],
            "failure": failure[:500],
        }
        with os.fdopen(report, "w") as file:
            json.dump(modules_and_failure, file)
        self._control.send(b"done")


def serve(fd: int, cpu: int) -> None:
    """Run the process that children are forked from, on an inherited socket, until that is closed."""
    limits.stop_the_clocks()
    os.dup2(fd, _CONTROL_FD)
    with socket.socket(fileno=_CONTROL_FD) as control:
        Image(control, cpu).serve()
