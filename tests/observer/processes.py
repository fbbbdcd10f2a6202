"""What /proc shows of processes of others: every file of each that opens, again and again until it ends."""

from contextlib import suppress
from pathlib import Path

from observer.notes import Notes, plain

CHANNEL = "processes"
NETWORK = "network of the kernel"
MACHINE = ("net", "locks", "sysvipc")  # of these namespaces alone; others add up the machine
SKIPPED = ("task", "fd", "fdinfo", "map_files", "net", "ns", "cwd", "root", "exe")  # of others: refused, and tested
SHOWN = 120  # of a title, where its files are named


class Processes:
    """All processes but those that are `ours`."""

    def __init__(self, notes: Notes, ours: set[int]) -> None:
        self._notes, self._ours = notes, ours
        self._open: dict[int, tuple[str, list[str]]] = {}
        self._last: dict[tuple[int, str], list[str]] = {}

    def names(self) -> None:
        """Processes that have begun or taken another title; each is looked at once at least."""
        for entry in (path.name for path in Path("/proc").iterdir()):
            if entry.isdecimal() and int(entry) not in self._ours:
                pid = int(entry)
                title = _title(pid)
                if title and self._open.get(pid, ("",))[0] != title:
                    self._open[pid] = (title, _readable(pid))
                    self._notes.word(CHANNEL, f"title {title}", "seen")
                    self._refused(pid, title)
                    self._read(pid)

    def look(self) -> None:
        """Every file of every process that is there."""
        for pid in list(self._open):
            self._open[pid] = (self._open[pid][0], _readable(pid))
            self._read(pid)

    def _read(self, pid: int) -> None:
        title, files = self._open[pid]
        for name in files:
            try:
                raw = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                if name == "stat":
                    del self._open[pid]
                    return
                continue
            text = raw.replace(b"\0", b" ").decode(errors="replace")
            if name == "stat":
                text = text.rpartition(")")[2]
            lines, last = text.splitlines(), self._last.get((pid, name), [])
            self._last[pid, name] = lines
            for place, line in enumerate(lines):
                if place < len(last) and last[place] == line:
                    continue
                label = (
                    line.split(":")[0].strip() if ":" in line else line.split("  ")[0] if name == "limits" else ""
                )
                self._notes.text(CHANNEL, f"{title[:SHOWN]} /{name} {label}".strip(), line)

    def _refused(self, pid: int, title: str) -> None:
        """What must not open: memory, environment, files."""
        for name in ("environ", "mem", "maps", "smaps", "io", "auxv", "stack", "syscall"):
            with suppress(OSError), Path(f"/proc/{pid}/{name}").open("rb") as file:
                if file.read(1):
                    self._notes.word(CHANNEL, f"{title} opens", name)
        for name in ("fd", "fdinfo", "map_files"):
            with suppress(OSError):
                if any(Path(f"/proc/{pid}/{name}").iterdir()):
                    self._notes.word(CHANNEL, f"{title} opens", name)

    def machine(self) -> None:
        """The kernel's own files of this network and of these processes."""
        for top in MACHINE:
            files = [str(path) for path in Path("/proc", top).rglob("*")] if Path("/proc", top).is_dir() else []
            for name in files or [f"/proc/{top}"]:
                if name.endswith(("netlink", "kcm", "ptype", "protocols", "raw", "packet")):
                    continue  # the kernel's own, of the whole machine
                with suppress(OSError):
                    text = Path(name).read_text(errors="replace")
                    if name.endswith(("netstat", "snmp")):
                        self._table(name, text)
                    elif name.endswith(("/tcp", "/tcp6", "/udp", "/udp6", "/unix", "sockstat", "/dev", "locks")):
                        self._lines(name, text)
                    else:
                        self._notes.text(NETWORK, name, text)

    def _table(self, name: str, text: str) -> None:
        """Two lines each: names and numbers."""
        lines = text.splitlines()
        for head, row in zip(lines[::2], lines[1::2], strict=False):
            for label, value in zip(head.split()[1:], row.split()[1:], strict=False):
                self._notes.number(NETWORK, f"{name} {head.split()[0]} {label}", float(value))

    def _lines(self, name: str, text: str) -> None:
        """The most lines, and what they say without addresses."""
        lines = text.splitlines()[1:] if not name.endswith(("sockstat", "locks")) else text.splitlines()
        self._notes.number(NETWORK, f"{name} lines", len(lines))
        if name.endswith("/unix"):
            for line in lines:
                if len(words := line.split()) > 7:
                    self._notes.word(NETWORK, "names of local sockets", plain(words[7]))
        if name.endswith(("/dev", "sockstat")):
            for line in lines:
                self._notes.text(NETWORK, f"{name} {line.split(':')[0].strip()}", line.partition(":")[2])
        if name.endswith(("/tcp", "/tcp6")):
            for line in lines:
                words = line.split()
                sent, waiting = (int(part, 16) for part in words[4].split(":"))
                self._notes.number(NETWORK, f"{name} bytes in the queue to be sent", sent)
                self._notes.number(NETWORK, f"{name} bytes in the queue to be read", waiting)


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return " ".join(plain(words).split())


def _readable(pid: int) -> list[str]:
    """Every file of a process that a second user can open and that holds something: none is named here."""
    found = []
    with suppress(OSError):
        for name in sorted(path.name for path in Path(f"/proc/{pid}").iterdir()):
            if name not in SKIPPED:
                with suppress(OSError), Path(f"/proc/{pid}/{name}").open("rb") as file:
                    if file.read(1):
                        found.append(name)
    return found
