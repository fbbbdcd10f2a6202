"""A Dask cluster that stands: refused unless records are safe there; what is lost tells and costs nothing."""

import os
import signal
import tempfile
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dask_hosts import hosts, written_certificate
from intruder import as_nobody, wait_until
from worlds import with_method

from dpbo.flows.cli.clusters import dask_cluster
from dpbo.flows.prefect_runtime.dask_fitness import PACKAGES, Problem, of_facts, of_versions, processor
from dpbo.flows.prefect_runtime.standing_cluster import ADDRESS, PATHS, standing_cluster
from dpbo.flows.prefect_runtime.workers import SETTING, scorers, workers, workers_for
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import METHODS
from dpbo_core.spec import StudySpec
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import open_study

FIT = {
    "plain": False,
    "pages_for": "nobody",
    "packs": False,
    "spills": False,
    "threads": 1,
    "processor": processor(),
}


@pytest.fixture
def certificate(here, monkeypatch):
    """The settings of the cluster's certificates; (certificate, key)."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    made = written_certificate(here)
    for name, path in zip(PATHS, (made[0], *made), strict=True):
        monkeypatch.setenv(name, str(path))
    return made


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("tcp://10.0.0.2:8786", "no tls:// address"),
        ("10.0.0.2:8786", "no tls:// address"),
        ("ws://10.0.0.2:8786", "no tls:// address"),
        ("tls://10.0.0.2", "names no host and port"),
        ("tls://10.0.0.2:many", "names no host and port"),
        ("tls://:8786", "names no host and port"),
    ],
)
def test_an_address_without_tls_is_refused(certificate, monkeypatch, address, says):
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(StudyInvalid, match=says):
        scorers()
    with pytest.raises(StudyInvalid, match=says):
        list(dask_cluster())


def test_a_certificate_that_is_missing_or_wrong_is_refused(certificate, here, monkeypatch):
    monkeypatch.setenv(ADDRESS, "tls://127.0.0.1:1")
    security = standing_cluster().security()
    assert security.require_encryption
    assert (security.tls_client_cert, security.tls_client_key) == tuple(map(str, certificate))
    for name in ("DPBO_DASK_CA", "DPBO_DASK_CERT"):
        with monkeypatch.context() as without:
            without.delenv(name)
            with pytest.raises(StudyInvalid, match=f"{name} no file"):
                scorers()
    other = written_certificate(here, "other")[1]
    for name, path in (("DPBO_DASK_CA", "nowhere.crt"), ("DPBO_DASK_KEY", str(other))):
        with monkeypatch.context() as wrong:
            wrong.setenv(name, path)
            with pytest.raises(StudyInvalid, match="cannot be used") as refused:
                standing_cluster().security()
            assert refused.value.__suppress_context__


def test_dasks_own_settings_name_the_certificates_too(certificate, monkeypatch):
    import dask

    monkeypatch.setenv(ADDRESS, "tls://127.0.0.1:1")
    for name in PATHS:
        monkeypatch.delenv(name)
    cert, key = map(str, certificate)
    theirs = {"ca-file": cert, "client": {"cert": cert, "key": key}}
    with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in theirs.items()}):
        assert standing_cluster().security().tls_client_key == key


def test_a_cluster_that_does_not_answer_is_one_message_before_anything_is_charged(certificate, monkeypatch, capfd):
    monkeypatch.setattr("dpbo.flows.prefect_runtime.standing_cluster.SECONDS", 0.2)
    monkeypatch.setenv(ADDRESS, "tls://127.0.0.1:1")
    with workers() as pool, pytest.raises(StudyInvalid, match="no Dask scheduler lets us in") as refused:
        pool.wait()
    assert "nothing was charged" in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", METHODS)
def test_who_hides_the_number_of_evaluations_is_not_scored_there(certificate, here, tables, monkeypatch, kind):
    monkeypatch.setenv(ADDRESS, "tls://127.0.0.1:1")
    monkeypatch.setenv(SETTING, "3")
    method = resolve(StudySpec.from_dict(with_method(tables, kind))).method
    assert workers_for(method) == (0 if kind == "dp_hypo" else standing_cluster())


@pytest.mark.parametrize("package", PACKAGES)
def test_other_versions_are_refused(package):
    def versions(changed):
        return {"packages": dict.fromkeys(PACKAGES, "3.11.7") | changed}

    same, other = versions({}), versions({package: "3.12.1"})
    assert of_versions({"client": same, "scheduler": same, "workers": {"w": same}}) == ()
    for found in (
        {"scheduler": other, "workers": {"w": same}},
        {"scheduler": same, "workers": {"v": same, "w": other}},
    ):
        (problem,) = of_versions({"client": same} | found)
        assert f"has {package} 3.12" in problem.what
    assert len(of_versions({"client": same, "scheduler": None, "workers": {}})) == len(PACKAGES)


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"plain": True}, "without TLS"),
        ({"pages_for": "the network"}, "pages to the network"),
        ({"packs": True}, "compresses"),
        ({"spills": True}, "write exact sums to disk"),
        ({"threads": 2}, "several threads"),
        ({"processor": "ASIMD"}, "another kind of processor"),
    ],
)
def test_a_worker_that_is_not_fit_is_refused(fact, says):
    assert of_facts("w", FIT) == of_facts("w", FIT | {"pages_for": "its machine"}) == ()
    (problem,) = of_facts("w", FIT | fact)
    assert isinstance(problem, Problem)
    assert says in problem.what
    assert says in "; ".join(item.what for item in of_facts("w", {}))  # what does not say is not fit


@pytest.fixture
def network(monkeypatch):
    """Three hosts, and a study's files where every user of them can read."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        with hosts(folder) as made:
            for setting, value in made.settings().items():
                monkeypatch.setenv(setting, value)
            yield made


@pytest.fixture
def spec(network, tables):
    rng = np.random.default_rng(8)

    def frame(n):
        x = rng.normal(size=(n, 3))
        return pd.DataFrame(x, columns=list("abc")).assign(ill=(x[:, 0] + rng.normal(size=n) > 0).astype(int))

    frame(80).to_parquet(network.folder / "train.parquet", index=False)
    V, parts = frame(500), network.folder / "parts"
    parts.mkdir()
    for j, (start, stop) in enumerate(pairwise([0, 1, 130, 300, 499, 500])):
        V.iloc[start:stop].to_parquet(parts / f"{j:02d}.parquet", index=False)
    with_method(tables, "private_trajectory")["search"] |= {"steps": 4}
    files = {"training": "train.parquet", "n_validation": 500, "target": "ill", "validation": "parts"}
    return StudySpec.from_dict(tables | {"data": files})


class Search:
    """A study with noise of our own, on a dataset declared public."""

    def __init__(self, spec, name):
        self.spec, self.noise = replace(spec, budget=None), InjectedNoise(np.random.default_rng(3))
        self.ledger = PrivacyLedger(f"sqlite:///{name}.db")
        self.ledger.set_budget(PrivacyBudget.without_limit("people"))
        self.steps = []

    def opened(self, pool):
        return open_study(self.spec, ledger=self.ledger, source=self.noise, workers=pool)

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
    found = {finding.what: finding for finding in dask_cluster()}
    assert [finding.verdict for finding in found.values()] == ["fine", "fine"]
    assert "2 workers" in found["dask cluster"].seen

    whole = Search(spec, "whole")
    with workers() as pool:
        assert whole.finished(pool) == expected
    assert whole.paid() == alone.paid()

    worker_lost = Search(spec, "worker")
    with workers() as pool:
        run = worker_lost.opened(pool)
        steps = [run.step()]
        network.send(3, signal.SIGSTOP)
        steps += [in_the_middle(network, run.step, lambda: network.send(3, signal.SIGKILL))]
        steps += [run.step() for _ in range(run.n_steps - 2)]
        assert (steps, run.finish().release.value) == expected
    assert worker_lost.paid() == alone.paid()

    capfd.readouterr()
    scheduler_lost = Search(spec, "scheduler")
    with workers() as pool:
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
    with workers() as pool:
        run = scheduler_lost.opened(pool)
        assert run.step() == expected[0][0]  # recorded already
        with pytest.raises(Sealed) as missing:
            run.step()
    assert str(missing.value) == str(lost)
    network.send(4, signal.SIGKILL)
    network.worker(3)
    with network.client() as client:
        wait_until(lambda: [w for w in client.nthreads() if "10.88.77.3" in w] == list(client.nthreads()) != [])
    with workers() as pool:
        continued = scheduler_lost.finished(pool)
    assert scheduler_lost.paid() == alone.paid()
    again = Search(spec, "again")  # opened as often, for the noise that an opening prepares
    again.opened(None).step()
    again.opened(None).step()
    assert continued == again.finished(None)
    assert continued[0][0] == expected[0][0]

    monkeypatch.setattr("dpbo.flows.prefect_runtime.workers.LOOK", 0.5)
    monkeypatch.setattr("dpbo.flows.prefect_runtime.workers.LOOKS", 4)
    nobody_left = Search(spec, "nobody")
    with workers() as pool:
        run = nobody_left.opened(pool)
        network.send(3, signal.SIGSTOP)
        given_up = in_the_middle(network, run.step, lambda: network.send(3, signal.SIGKILL))
    assert isinstance(given_up, Sealed)
    assert str(given_up) == str(lost)
    assert nobody_left.paid() == alone.paid()
    assert [finding.seen for finding in dask_cluster()] == ["it has no workers"]
    assert "parts/" not in network.log()
    assert "Traceback" not in network.log()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mismatched versions")  # of Python, whose patch releases may differ
def test_a_worker_that_is_not_fit_and_a_stranger_are_found(network, spec, monkeypatch):
    """Real processes with Dask's own settings: pages for everybody, spilling; and who has no certificate."""
    network.scheduler()
    network.worker(3, "--memory-limit", "2GB")
    network.worker(4, DASK_DISTRIBUTED__WORKER__HTTP__ROUTES="['distributed.http.worker.prometheus']")
    network.wait_for_workers(2)
    seen = "; ".join(finding.seen for finding in dask_cluster() if finding.verdict == "wrong")
    assert "10.88.77.3" in seen.partition("write exact sums to disk")[0]
    assert "shows Dask's pages to the network" in seen
    with workers() as pool, pytest.raises(StudyInvalid, match="not fit for records"):
        pool.wait()
    from dpbo.flows.prefect_runtime.workers import DaskWorkers

    with network.client() as client:  # one that came after the look answers nothing
        assert DaskWorkers(lambda: client, standing=True).answers(bytes, [Path("parts")] * 2) == []
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
    monkeypatch.setenv("DPBO_DASK_KEY", os.environ["DPBO_DASK_KEY"])
    strangers = written_certificate(network.folder, "stranger")
    for name, path in zip(PATHS, (strangers[0], *strangers), strict=True):
        monkeypatch.setenv(name, str(path))
    monkeypatch.setattr("dpbo.flows.prefect_runtime.standing_cluster.SECONDS", 3)
    with workers() as pool, pytest.raises(StudyInvalid, match="no Dask scheduler lets us in"):
        pool.wait()
