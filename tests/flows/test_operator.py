"""What whoever may start runs through Prefect tries: nothing is opened or imported without the owner's word."""

import os
import socket
import threading

import pytest
from intruder import NOBODY
from of_features import merged, parts
from test_policy_runs import folder, in_a_run, ledger, team  # noqa: F401  a fixture
from test_policy_runs import study as written  # noqa: F401  a fixture

from dpbo.flows.evaluate import evaluate_privately
from dpbo.flows.private_flow import PrivateFlow, owners_terminal
from dpbo.flows.serve import STUDY_DIGEST_VARIABLE, tune_on_schedule
from dpbo.flows.tune import tune, tune_privately
from dpbo_core.data.addresses import parse_address
from dpbo_core.data.fetched import fetched
from dpbo_core.errors import PolicyRefused, StudyInvalid
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import run_study

CANARY = "Ottilie Kirchner"
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def study(written, here, monkeypatch):  # noqa: F811
    """A study of two files that its owner ran once; `study(edition, **data)` is another edition of it."""
    monkeypatch.setattr("dpbo.flows.evaluate.publish_release", lambda *_: None)  # as of a tune
    (here / "patients.csv").write_text(f"a,b,y\n{CANARY},1,1\n2,2,0\n")
    (here / "v.csv.bak.csv").write_text((here / "v.csv").read_text())
    run_study(written(), ledger=ledger())
    return lambda edition="1", model=None, **data: written(edition, model=model, data=data)


def n_charges():
    return [len(account.entries) for account in ledger().accounts()]


def asked(spec):
    """The story of `tune_privately`, in the run that is under way."""
    flow = PrivateFlow.begin(".")
    return tune(flow, Run.of(spec, flow.context)).result


@in_a_run
def test_a_file_that_nobody_allowed_has_one_message(study, monkeypatch, here):
    """As `training` its first cell stood in the message, and nearest neighbours published its rows."""
    monkeypatch.setattr("dpbo_core.data.read_table", lambda *_, **__: pytest.fail("it was read"))
    monkeypatch.setattr("dpbo_core.data.read_header", lambda *_, **__: pytest.fail("its header was read"))
    (here / "linked.csv").symlink_to(here / "v.csv")
    for file in ("patients.csv", "v.csv.bak.csv", "/etc/hostname", "missing.csv", ".", "v.csv", "linked.csv"):
        for key, role in (("training", "public records"), ("validation", "records")):
            if (file, key) in (("v.csv", "validation"), ("linked.csv", "validation")):
                continue  # which its owner allowed, as records
            with pytest.raises(PolicyRefused) as refused:
                asked(study("2", **{key: file}))
            what = f"the {role} that this study names are not allowed by the owner's policy"
            assert refused.value.what == what
            assert (CANARY in str(refused.value), refused.value.exit_code, n_charges()) == (False, 3, [1])


def test_the_owner_allows_a_file_by_name(study, dpbo, here):
    spec = study("2", training="more.csv")
    (here / "more.csv").write_text((here / "train.csv").read_text())
    assert dpbo("budget", "allow", "clinic", "more.csv", "--as", "training")[0] == 0
    assert "Prefect's runs may read" in dpbo("budget")[1]

    def sends():
        assert not asked(spec).replayed
        (here / "more.csv").unlink()
        with pytest.raises(PolicyRefused, match=r"the public records .* are not allowed"):
            asked(study("3", training="more.csv"))

    team(sends)


@in_a_run
def test_no_host_is_connected_to_that_nobody_allowed(study):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        port = listening.getsockname()[1]
        for address in (
            f"postgresql://127.0.0.1:{port}/d?query=SELECT a, b, y FROM v",
            f"s3://b/v.csv?region=x&scheme=http&endpoint_override=127.0.0.1:{port}",
        ):
            with pytest.raises(PolicyRefused, match="not allowed by the owner's policy"):
                asked(study("2", validation=address))
        with pytest.raises(TimeoutError):
            listening.accept()


def test_a_server_that_asks_for_the_password_in_clear_is_not_given_it(monkeypatch):
    """PGPASSWORD, the ledger's, was sent to whichever host a study named as its data."""
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGPASSWORD", CANARY)
    monkeypatch.setenv("PGUSER", "somebody")
    monkeypatch.setenv("PGSSLMODE", "disable")
    received = []

    def asks(listening):
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x03")  # AuthenticationCleartextPassword
            received.append(connection.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        asking = threading.Thread(target=asks, args=(listening,))
        asking.start()
        place = parse_address(f"postgresql://127.0.0.1:{listening.getsockname()[1]}/d?query=SELECT a FROM v")
        with pytest.raises(StudyInvalid, match="could not be fetched"):
            fetched(place, display_name="v")
        asking.join()
    assert CANARY.encode() not in received[0]


@in_a_run
def test_no_module_model_or_table_is_read_that_nobody_allowed(study, here, monkeypatch):
    (here / "v.py").touch()  # that a file of that name lies beside the study is not said either
    monkeypatch.setattr("dpbo_core.models.import_path.named_object", lambda *_, **__: pytest.fail("imported"))
    for estimator in ("sklearn.neural_network._stuff.X", "dask_ml.Net", "pip:main", "v:main"):
        with pytest.raises(PolicyRefused, match=r"not allowed by the owner's policy.*--as estimator"):
            asked(study("2", model=estimator))
    for model in ("missing", "/etc"):
        with pytest.raises(PolicyRefused, match=r"the saved models .* not allowed by the owner's policy"):
            evaluate_privately.fn(study("1"), epsilon=0.1, model=str(here / model))
    for started in parts("of_a_table"):
        with pytest.raises(PolicyRefused, match=r"the records .* not allowed by the owner's policy"):
            started(study("1"), "patients.csv")


def test_a_day_costs_no_more_than_its_owner_said(study, dpbo):
    """14 runs by hand spent 3.45 of 5 within 20 s."""
    assert dpbo("budget", "set", "clinic", "--a-day", "1.0")[0] == 0
    assert dpbo("budget", "set", "clinic", "--a-day", "2.0")[0] == 3

    def sends():
        asked(study("2"))
        with pytest.raises(
            PolicyRefused, match="ε = 1 of the 1 that dataset 'clinic' may spend in a day"
        ) as refused:
            asked(study("3"))
        assert (refused.value.exit_code, n_charges()) == (3, [2])
        assert asked(study("2")).replayed

    team(sends)
    run_study(study("4"), ledger=ledger())  # its owner may
    assert "may spend ε 1 within 24 hours" in dpbo("budget")[1]


@in_a_run
def test_no_flow_names_files_of_no_study(study, here):
    """Both parties of an exchange are their owner's to start."""
    for started in merged("of_no_study", "patients.csv").values():
        with pytest.raises(PolicyRefused, match="not allowed by the owner's policy"):
            started()
    assert n_charges() == [1]


def test_an_epsilon_of_json_damages_no_ledger(study, dpbo):
    """`true` was recorded as such, and no row of the dataset could be read any more, by anybody."""
    report = evaluate_privately(study("1"), epsilon=True).result.release
    assert (repr(report.guarantee.epsilon), dpbo("budget", "verify")[0]) == ("1.0", 0)


def test_a_schedules_run_waits_for_no_pipe(here, monkeypatch):
    monkeypatch.setattr("dpbo.flows.private_flow.read_study", lambda *_, **__: pytest.fail("read"))
    os.mkfifo(here / "pipe")
    with pytest.raises(StudyInvalid, match="missing, cannot be read or is no study"):
        tune_on_schedule("pipe")


@pytest.mark.parametrize("served", [None, "0" * 64])
@in_a_run
def test_a_schedules_run_tells_nothing_of_a_file_that_it_names(study, monkeypatch, served):
    if served is not None:
        monkeypatch.setenv(STUDY_DIGEST_VARIABLE, served)

    def told(on_schedule, file):
        try:
            return str(on_schedule.fn(file).message)
        except (StudyInvalid, PolicyRefused) as refused:
            return str(refused)

    for on_schedule in (tune_on_schedule, *merged("on_schedule").values()):
        files = ("patients.csv", "missing.toml", "/etc/shadow", ".")
        (message,) = {told(on_schedule, file).replace(repr(file), "") for file in files}
        assert CANARY not in message


def test_the_owner_is_the_account_of_the_ledgers_file(study, dpbo, here):
    """Who may write to another account's ledger is asked as an operator, and decides nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root has a ledger of another account that it may write to")
    for path in (here / "mlruns").glob("ledger.db*"):
        os.chown(path, NOBODY, NOBODY)
    assert dpbo("budget", "set", "clinic", "--a-day", "1.0")[0] == 3
    assert dpbo("budget", "allow", "clinic", "patients.csv", "--as", "training")[0] == 3
    with owners_terminal(), pytest.raises(PolicyRefused, match="not allowed by the owner's policy"):
        tune_privately(study("2", training="patients.csv"))
    with pytest.raises(PolicyRefused, match="a run that Prefect started cannot"):
        run_study(study("2", validation="v.csv.bak.csv"), ledger=ledger())
    assert n_charges() == [1]


def test_who_asked_stands_beside_each_charge(study, dpbo):
    team(asked, study("2"))
    _, by_prefect = (entry.asked_by for entry in ledger().accounts("clinic")[0].entries)
    assert by_prefect.startswith("Prefect's run of ")
    assert socket.gethostname() in by_prefect
    assert "no deployment" in by_prefect
    assert "1 charged by Prefect's run" in " ".join(dpbo("budget")[1].split())
