"""Hosts of a Dask cluster: network namespaces on a bridge, whose processes are another user's and speak TLS."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from intruder import NOBODY, wait_until

SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    "OMP_NUM_THREADS": "1",
}
PORT = 8786


def written_certificate(folder, name="cluster"):
    """(certificate, key) as files, made as a run of this project makes its own."""
    from distributed.security import Security

    made, paths = Security.temporary(), (folder / f"{name}.crt", folder / f"{name}.pem")
    for path, text in zip(paths, (made.tls_client_cert, made.tls_client_key), strict=True):
        path.write_text(text)
        path.chmod(0o600)
    return paths


def tls(certificate, key):
    """What the curator sets of Dask's."""
    told = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
    return {f"distributed.comm.tls.{name}": str(path) for name, path in told.items()}


def _do(*words):
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@dataclass
class Hosts:
    """The curator's machine is 10.88.77.1, the scheduler's .2, the workers' .3 and .4."""

    folder: Path
    certificate: tuple[Path, Path]
    running: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def address(self):
        return f"tls://10.88.77.2:{PORT}"

    def start(self, host, *words, first="true", **settings):
        """`dask` on a host, by nobody; `first` is run there by root, in a mount namespace of its own."""
        cert, key = (str(self.folder / "theirs" / path.name) for path in self.certificate)
        ours = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
        given = [sys.executable, "-m", "dask", *words, "--host", f"10.88.77.{host}", "--no-dashboard", *ours]
        line = f'{first} && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$@"'
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DPBO_", "DASK_"))}
        with (self.folder / "theirs" / "log").open("ab") as log:
            self.running[str(host)] = subprocess.Popen(
                ["ip", "netns", "exec", f"dpbo{host}", "sh", "-c", line, "sh", *given],
                cwd=self.folder / "theirs",
                env=clean | SETTINGS | {"HOME": str(self.folder / "theirs")} | settings,
                stdout=log,
                stderr=log,
            )

    def scheduler(self, **settings):
        self.start(2, "scheduler", "--port", str(PORT), **settings)

    def worker(self, host, *words, first="true", **settings):
        fixed = ["--nthreads", "1", "--no-nanny", "--name", f"w{host}"]
        fixed += [] if "--memory-limit" in words else ["--memory-limit", "0"]
        self.start(host, "worker", self.address, *fixed, *words, first=first, **settings)

    def send(self, host, number):
        """A signal to the process of a host; who is killed is waited for."""
        self.running[str(host)].send_signal(number)
        if number == signal.SIGKILL:
            self.running.pop(str(host)).wait(60)

    def log(self):
        return (self.folder / "theirs" / "log").read_text()

    @contextmanager
    def client(self):
        """One of ours that looks on."""
        from distributed import Client

        from dpbo.flows.standing_cluster import standing_cluster

        security = standing_cluster().security()
        with Client(self.address, security=security, timeout=90, set_as_default=False) as client:
            yield client

    def wait_for_workers(self, n):
        with self.client() as client:
            wait_until(lambda: len(client.nthreads()) == n)


@contextmanager
def hosts(folder):
    """Three of them, and an end to all that was started there."""
    if os.geteuid() != 0:
        pytest.skip("other users and hosts: only root can make them")
    theirs = folder / "theirs"
    theirs.mkdir()
    certificate = written_certificate(folder)
    for path in certificate:
        copy = theirs / path.name
        copy.write_text(path.read_text())
        copy.chmod(0o600)
        os.chown(copy, NOBODY, NOBODY)
    os.chown(theirs, NOBODY, NOBODY)
    with ExitStack() as undo:
        _do("ip", "link", "add", "dpbobr", "type", "bridge")
        undo.callback(_do, "ip", "link", "del", "dpbobr")
        _do("ip", "addr", "add", "10.88.77.1/24", "dev", "dpbobr")
        _do("ip", "link", "set", "dpbobr", "up")
        for host in (2, 3, 4):
            _do("ip", "netns", "add", f"dpbo{host}")
            undo.callback(_do, "ip", "netns", "del", f"dpbo{host}")
            _do("ip", "link", "add", f"dpbov{host}", "type", "veth", "peer", "name", "eth0", "netns", f"dpbo{host}")
            _do("ip", "link", "set", f"dpbov{host}", "master", "dpbobr", "up")
            inside = ("ip", "-n", f"dpbo{host}")
            _do(*inside, "addr", "add", f"10.88.77.{host}/24", "dev", "eth0")
            _do(*inside, "link", "set", "eth0", "up")
            _do(*inside, "link", "set", "lo", "up")
        made = Hosts(folder, certificate)
        try:
            yield made
        finally:
            for host in list(made.running):
                made.send(host, signal.SIGKILL)
