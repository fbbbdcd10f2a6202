"""A Dask cluster that stands: refused unless records are safe there; what is lost tells and costs nothing."""

import re
import signal
import tempfile
import threading
from collections import UserDict
from pathlib import Path
from types import NoneType, SimpleNamespace

import numpy as np
import pytest
import tomli_w
from dask_hosts import hosts, tls, written_certificate
from intruder import as_nobody, wait_until
from of_features import installed
from test_workers import in_parts, public_and_sensitive
from worlds import with_method

from dpbo.flows.cli.doctor import dask_cluster
from dpbo.flows.private_flow import workers
from dpbo.flows.standing_cluster import COMPARED_PACKAGES, DaskWorkers, on_cluster, problems, standing_cluster
from dpbo.flows.stores import DASK_SETTING
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study


@pytest.fixture
def certificate(here):
    """Dask's settings of the cluster's certificates; (certificate, key)."""
    dask = pytest.importorskip("dask", reason="the extra dask is not installed")
    made = written_certificate(here)
    with dask.config.set(tls(*made)):
        yield made


def refused(words, *parts):
    """The message with which a cluster that is waited for, to score these parts, is refused."""
    with on_cluster(standing_cluster()) as pool, pytest.raises(StudyInvalid, match=words) as found:
        pool.wait(*parts)
    return found.value


def test_an_address_without_tls_is_refused(certificate, monkeypatch):
    hosts = ("tcp://10.0.0.2:8786", "10.0.0.2:8786", "tls://10.0.0.2", "tls://10.0.0.2:many", "tls://:8786")
    for address in (*hosts, "tls://user@10.0.0.2:8786"):
        monkeypatch.setenv(DASK_SETTING, address)
        for look in (standing_cluster, lambda: list(dask_cluster())):
            with pytest.raises(StudyInvalid, match="no tls:// address of a host and port"):
                look()


def test_a_certificate_that_is_missing_or_wrong_is_refused(certificate, here, monkeypatch):
    import dask

    monkeypatch.setenv(DASK_SETTING, "tls://127.0.0.1:1")
    other = written_certificate(here, "other")[1]
    nowhere = here / "nowhere.crt"
    for wrong in (tls(certificate[0], other), tls(nowhere, certificate[1]), dict.fromkeys(tls("", ""))):
        with dask.config.set(wrong):
            error = refused(r"certificates .* cannot be used")
        assert error.__suppress_context__ or error.__context__ is None


def test_a_cluster_that_does_not_answer_is_one_message_before_anything_is_charged(certificate, monkeypatch, capfd):
    monkeypatch.setattr("dpbo.flows.standing_cluster.ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setenv(DASK_SETTING, "tls://127.0.0.1:1")
    assert "nothing was charged" in str(refused("no Dask scheduler lets us in"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", installed("private_grid", "dp_hypo"))
def test_who_hides_the_number_of_evaluations_is_not_scored_there(certificate, here, tables, monkeypatch, kind):
    monkeypatch.setattr("dpbo.flows.standing_cluster.ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr("dpbo.flows.private_flow.is_partitioned", lambda *_: True)
    monkeypatch.setenv(DASK_SETTING, "tls://127.0.0.1:1")
    spec = StudySpec.from_dict(with_method(tables, kind))
    method = resolve(spec).method
    with workers(spec, ".", method) as made:
        assert isinstance(made, NoneType if method.hides_evaluations else DaskWorkers)


class Cluster:
    """A scheduler and two workers as Dask's client shows them, fit for records unless `wrong` says otherwise."""

    def __init__(self, versions=(), **wrong):
        pages = wrong.pop("pages", [])
        self.versions = dict(versions)
        self.scheduler, self.worker = (
            SimpleNamespace(
                address="tls://w:1",
                listeners=[SimpleNamespace(listen_address=wrong.get("listens", "tls://w:1"))],
                http_application=SimpleNamespace(applications=pages),
                data=wrong.get("data", {}),
                state=SimpleNamespace(nthreads=wrong.get("threads", 1)),
            )
            for _ in "sw"
        )

    def nthreads(self):
        return {"v": 1, "w": 1}

    def get_versions(self, packages):
        same = {"packages": dict.fromkeys(packages, "3.11.7")}
        workers = {"v": same} | ({"w": {"packages": self.versions}} if self.versions else {})
        return {"client": same, "scheduler": same, "workers": workers}

    def run(self, function, *given):
        return {"w": function(*given, dask_worker=self.worker)}

    def run_on_scheduler(self, function):
        return function(dask_scheduler=self.scheduler)


@pytest.fixture
def no_routes():
    dask = pytest.importorskip("dask", reason="the extra dask is not installed")
    settings = {f"distributed.{kind}.http.routes": [] for kind in ("scheduler", "worker")}
    with dask.config.set(settings | {"distributed.comm.compression": False}):
        yield dask.config


@pytest.mark.parametrize("package", COMPARED_PACKAGES)
def test_other_versions_are_refused(no_routes, package):
    same = dict.fromkeys(COMPARED_PACKAGES, "3.11.7")
    assert problems(Cluster(same | {"python": "3.11.9"})) == ()
    (problem,) = problems(Cluster(same | {package: "3.12.1"}, threads=2))  # and is asked no more
    assert f"'{package}': '3.12" in problem.what
    same.pop(package)
    (problem,) = problems(Cluster(same))
    assert "missing" in problem.what or package == "python"


@pytest.mark.parametrize(("wrong", "says"), [
    ({"listens": "tcp://w:1"}, "without TLS"), ({"pages": ["a dashboard"]}, "Dask's pages"),
    ({"data": UserDict()}, "write exact sums to disk"), ({"threads": 2}, "several threads"),
])  # fmt: skip
def test_a_worker_that_is_not_fit_is_refused(no_routes, wrong, says):
    assert problems(Cluster()) == ()
    assert {says in problem.what for problem in problems(Cluster(**wrong))} == {True}


def test_settings_of_dask_that_are_not_fit_are_refused(no_routes, monkeypatch):
    for setting, value, says in (
        ("distributed.comm.compression", "zlib", "compresses"),
        ("distributed.scheduler.http.routes", ["distributed.http.scheduler.json"], "Dask's pages"),
        ("distributed.worker.http.routes", ["distributed.http.worker.prometheus"], "Dask's pages"),
    ):
        with no_routes.set({setting: value}):
            assert says in problems(Cluster())[0].what
    monkeypatch.setattr("dpbo.flows.standing_cluster.processor", iter(["AVX2", "ASIMD"]).__next__)
    (problem,) = problems(Cluster())
    assert "another kind of processor" in problem.what


@pytest.fixture
def network(monkeypatch):
    """Three hosts, and a study's files where every user of them can read."""
    dask = pytest.importorskip("dask", reason="the extra dask is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        with hosts(folder) as made, dask.config.set(tls(*made.certificate)):
            monkeypatch.setenv(DASK_SETTING, made.address)
            yield made


@pytest.fixture
def spec(network, tables):
    in_parts(public_and_sensitive(network.folder), network.folder)
    with_method(tables, "private_trajectory")["search"] |= {"steps": 4}
    files = {"training": "train.parquet", "n_validation": 500, "target": "ill", "validation": "parts"}
    return StudySpec.from_dict(tables | {"data": files})


class Search:
    """A study with noise of our own, on a dataset declared public."""

    def __init__(self, spec, name):
        self.spec, self.noise = spec.replace(budget=None), InjectedNoise(np.random.default_rng(3))
        self.ledger = PrivacyLedger(f"sqlite:///{name}.db")
        self.ledger.set_budget(PrivacyBudget.without_limit("people"))
        self.steps = []

    def opened(self, pool):
        return open_study(Run.of(self.spec, QueryContext(self.ledger, source=self.noise, workers=pool)))

    def finished(self, pool):
        run = self.opened(pool)
        found = [run.step() for _ in range(run.n_steps)]
        return found, run.finish().release.value

    def paid(self):
        (account,) = self.ledger.accounts()
        return account.spent, [(entry.cost, len(entry.draws)) for entry in account.entries]


def in_the_middle(network, step, then):
    """`then()` once a worker that is stopped has been given parts; what `step` returned or raised."""
    found = []

    def work():
        try:
            found.append(step())
        except Sealed as error:
            found.append(error)

    with network.client() as client:
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: any(client.processing().values()), alive=thread.is_alive)
        then()
    thread.join(240)
    assert not thread.is_alive()
    return found[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mismatched versions")  # of Python, whose patch releases may differ
def test_a_cluster_of_another_user_on_other_hosts(network, spec, capfd, monkeypatch):
    """The same numbers as here; one worker lost, the scheduler lost, a part missing: nothing told or paid twice."""
    network.scheduler()
    for host in (3, 4):
        network.worker(host)
    network.wait_for_workers(2)
    alone = Search(spec, "alone")
    expected = alone.finished(None)
    (found,) = dask_cluster()
    assert found.verdict == "fine"
    assert "2 workers" in found.observed

    whole = Search(spec, "whole")
    with on_cluster(standing_cluster()) as pool:
        assert whole.finished(pool) == expected
    assert whole.paid() == alone.paid()

    worker_lost = Search(spec, "worker")
    with on_cluster(standing_cluster()) as pool:
        run = worker_lost.opened(pool)
        steps = [run.step()]
        network.send(3, signal.SIGSTOP)
        steps += [in_the_middle(network, run.step, lambda: network.send(3, signal.SIGKILL))]
        steps += [run.step() for _ in range(run.n_steps - 2)]
        assert (steps, run.finish().release.value) == expected
    assert worker_lost.paid() == alone.paid()

    capfd.readouterr()
    scheduler_lost = Search(spec, "scheduler")
    with on_cluster(standing_cluster()) as pool:
        run = scheduler_lost.opened(pool)
        run.step()
        network.send(4, signal.SIGSTOP)
        lost = in_the_middle(network, run.step, lambda: network.send(2, signal.SIGKILL))
        assert isinstance(lost, Sealed)
        network.send(4, signal.SIGKILL)
    assert "Dask" not in str(lost)
    assert capfd.readouterr() == ("", "")
    network.scheduler()
    network.worker(4, first=f"mount -t tmpfs none {network.folder / 'parts'}")
    network.wait_for_workers(1)
    with on_cluster(standing_cluster()) as pool:
        run = scheduler_lost.opened(pool)
        assert run.step() == expected[0][0]  # recorded already
        with pytest.raises(Sealed) as missing:
            run.step()
    assert str(missing.value) == str(lost)
    network.send(4, signal.SIGKILL)
    network.worker(3)
    with network.client() as client:
        wait_until(lambda: [w for w in client.nthreads() if "10.88.77.3" in w] == list(client.nthreads()) != [])
    with on_cluster(standing_cluster()) as pool:
        continued = scheduler_lost.finished(pool)
    assert scheduler_lost.paid() == alone.paid()
    again = Search(spec, "again")  # opened as often, for the noise that an opening prepares
    again.opened(None).step()
    again.opened(None).step()
    assert continued == again.finished(None)
    assert continued[0][0] == expected[0][0]

    monkeypatch.setattr("dpbo.flows.standing_cluster.LOOK", 0.5)
    monkeypatch.setattr("dpbo.flows.standing_cluster.LOOKS", 4)
    nobody_left = Search(spec, "nobody")
    with on_cluster(standing_cluster()) as pool:
        pool.wait()  # a worker that is stopped while it is looked at says nothing for as long
        run = nobody_left.opened(pool)
        network.send(3, signal.SIGSTOP)
        given_up = in_the_middle(network, run.step, lambda: network.send(3, signal.SIGKILL))
    assert isinstance(given_up, Sealed)
    assert str(given_up) == str(lost)
    assert nobody_left.paid() == alone.paid()
    assert [finding.observed for finding in dask_cluster()] == ["it has no workers"]
    assert "parts/" not in network.log()
    assert "Traceback" not in network.log()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mismatched versions")  # of Python, whose patch releases may differ
def test_a_blind_worker_is_named_before_the_charge_and_a_lost_scheduler_when_it_is_lost(network, spec):
    network.scheduler()
    network.worker(3)
    network.worker(4, first=f"mount -t tmpfs none {network.folder / 'parts'}")
    network.wait_for_workers(2)
    parts = data_split.validation_parts(spec, network.folder)
    blind = r"10\.88\.77\.4.* cannot read 7 of the 7 parts"
    refused(blind, parts)
    (network.folder / "study.toml").write_text(tomli_w.dumps(spec.to_dict()))
    (wrong,) = [finding.observed for finding in dask_cluster() if finding.verdict == "wrong"]
    assert re.search(blind, wrong)
    network.send(4, signal.SIGKILL)
    with network.client() as client:
        wait_until(lambda: len(client.nthreads()) == 1)
    lost = Search(spec, "lost")

    def scored():
        with on_cluster(standing_cluster()) as pool:
            pool.wait(parts)
            run = lost.opened(pool)
            run.step()
            network.send(2, signal.SIGKILL)
            run.step()

    with pytest.raises(Sealed, match=r"the Dask scheduler at tls://10\.88\.77\.2:8786 is gone.*run again") as gone:
        scored()
    assert (gone.value.__cause__, gone.value.__suppress_context__) == (None, True)
    assert len(lost.paid()[1]) == 1  # the reservation stands


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mismatched versions")  # of Python, whose patch releases may differ
def test_a_worker_that_is_not_fit_and_a_stranger_are_found(network, spec, monkeypatch):
    """Real processes with Dask's own settings: pages, spilling; and who has no certificate, or another."""
    import dask

    network.scheduler()
    network.worker(3, "--memory-limit", "2GB")
    network.worker(4, DASK_DISTRIBUTED__WORKER__HTTP__ROUTES="['distributed.http.worker.prometheus']")
    network.wait_for_workers(2)
    seen = "; ".join(finding.observed for finding in dask_cluster() if finding.verdict == "wrong")
    assert "10.88.77.3" in seen.partition("write exact sums to disk")[0]
    assert "10.88.77.4" in seen.partition("has Dask's pages")[0]
    refused("not fit for records")
    with network.client() as client:  # one that came after the look answers nothing
        assert [*DaskWorkers(lambda: client).answers(bytes, [Path("parts"), Path("more")])] == [None, None]
    ask = """
import ssl
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
said = []
for tls in (True, False):
    try:
        with socket.create_connection(("10.88.77.2", 8786), timeout=5) as raw:
            said.append(len((context.wrap_socket(raw) if tls else raw).recv(1)))
    except OSError:
        said.append(0)
print(json.dumps(said))
"""
    assert as_nobody(ask) == [0, 0]
    monkeypatch.setattr("dpbo.flows.standing_cluster.ANSWER_TIMEOUT_S", 3)
    with dask.config.set(tls(*written_certificate(network.folder, "stranger"))):
        refused("no Dask scheduler lets us in")
