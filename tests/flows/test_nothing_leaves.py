"""Nothing else leaves: no connection outward, no core, no pickle, no file that others read, no library's words."""

import json
import os
import pickle
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from intruder import NOBODY, command, environment

from dpbo.flows.stores import Stores
from dpbo_core.errors import BudgetRefused, StudyInvalid
from dpbo_core.study import StudySpec

WATCH = '''
import sys
def watch(event, arguments):
    """Every connection, datagram and name that this process asks for, in any thread, one line each."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        family, where = arguments[0].family.name, arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        family, where = "NAME", arguments
    else:
        return
    with open({log!r}, "a") as file:
        file.write(f"{{family}} {{where}}\\n")
sys.addaudithook(watch)
'''
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ROOT = Path(__file__).parents[2]
UNREPORTED = ("DO_NOT_TRACK", "CI", "PYTEST_CURRENT_TEST", "MLFLOW_DISABLE_TELEMETRY")  # they switch reports off


def run(words, folder, around=os.environ, **options):
    """A process in a folder, its output as text."""
    return subprocess.run(words, cwd=folder, env=dict(around), capture_output=True, text=True, **options)


def connections(folder, prelude=""):
    """(inward, outward): what the Python processes of one whole `dpbo tune` in `folder` asked of the network."""
    log = folder / "connections.txt"
    hook = folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(WATCH.format(log=str(log)) + prelude)
    around = environment(folder)
    for name in UNREPORTED:
        around.pop(name, None)
    around["PYTHONPATH"] = f"{hook}{os.pathsep}{ROOT}"
    done = run(command("tune", "study.toml", "--json", "--register"), folder, around)
    assert json.loads(done.stdout)["replayed"] is False, done.stderr
    assert "sitecustomize" not in done.stderr  # Python goes on without a prelude that failed
    asked = [line for line in log.read_text().splitlines() if not line.startswith("AF_UNIX")]
    inward = [line for line in asked if any(f"'{name}'" in line for name in LOOPBACK)]
    return inward, [line for line in asked if line not in inward]


PLANTED = "import dpbo.tasks.reporting.mlflow_store as s; s.MLFLOW_TELEMETRY.clear()"


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", PLANTED], ids=["honest", "planted"])
def test_a_whole_tune_connects_to_nobody(here, tables, prelude):
    """Prefect's temporary server, its client, MLflow with a registered model: 0. MLflow's default: 1 or more."""
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    inward, outward = connections(here, prelude)
    assert len(inward) > 4  # the hook sees
    assert any("mlflow" in line for line in outward) if prelude else outward == []


LIBRARY = """
import sys
sys.path.insert(0, {tests!r})
exec(open({watch!r}).read())
from mlflow.telemetry.utils import is_telemetry_disabled
assert not is_telemetry_disabled()
from dpbo.tasks.reporting.mlflow_store import open_store
store = open_store("sqlite:///mlruns/mlflow.db")
experiment = store.experiment("people")
run = store.client.create_run(experiment)
store.client.log_metric(run.info.run_id, "a", 1.0)
store.client.set_terminated(run.info.run_id)
assert is_telemetry_disabled()
"""


@pytest.mark.slow
def test_publishing_reports_to_nobody_in_a_program_of_ones_own(here):
    """No command and no setting: the library alone, in a program that imported MLflow before."""
    log, watch = here / "connections.txt", here / "watch.py"
    watch.write_text(WATCH.format(log=str(log)))
    around = {name: value for name, value in os.environ.items() if name not in UNREPORTED}
    code = LIBRARY.format(tests=str(ROOT / "tests"), watch=str(watch))
    done = run([sys.executable, "-c", code], here, around | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert not log.exists() or log.read_text() == ""


OPEN = """
import os, resource, sys
from pathlib import Path
from dpbo_core.data import read_table
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
before = resource.getrlimit(resource.RLIMIT_CORE)
read_table("public.csv", mode=PUBLIC_FILE, display_name="public.csv")
assert resource.getrlimit(resource.RLIMIT_CORE) == before
table = read_table("private.csv", mode=SENSITIVE_FILE, display_name="private.csv")
assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
print(Path("/proc/self/coredump_filter").read_text().strip(), flush=True)
if sys.argv[1:] == ["raise"]:
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # as a collector of dumps, which ignores it
os.abort()
"""


@pytest.mark.parametrize("words", [[], ["raise"]])
def test_a_crash_leaves_no_record_in_a_core(here, words):
    """The limit is nought; and where something dumps all the same, no memory is in the dump."""
    for name in ("public.csv", "private.csv"):
        (here / name).write_text("a,b\nzq7-core-canary,1\n")
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()

    def unlimited():
        _, ceiling = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (ceiling, ceiling))

    around = os.environ | {"PYTHONPATH": str(ROOT)}
    done = run([sys.executable, "-c", OPEN, *words], here, around, preexec_fn=unlimited)
    assert done.returncode < 0, done.stderr
    assert int(done.stdout.strip(), 16) == 0
    dumps = [path for path in here.iterdir() if path.suffix != ".csv"]
    assert words or dumps == []
    assert not any(b"zq7-core-canary" in path.read_bytes() for path in dumps)
    if not words and pattern == "core" and resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        # a process inherits what its dump may hold from this one, which may have read a sensitive table
        whole = "from pathlib import Path; Path('/proc/self/coredump_filter').write_text('0x33'); "
        crash = f"{whole}kept = 'zq7-core-canary'; import os; os.abort()"
        subprocess.run([sys.executable, "-c", crash], cwd=here, preexec_fn=unlimited)
        found = [path.read_bytes() for path in here.glob("core*")]
        assert any(b"zq7-core-canary" in dump for dump in found)  # without it a core holds what the process held


def test_mlruns_is_its_owners_alone(here):
    Stores().make_folder()
    (here / "mlruns").chmod(0o755)
    Stores().make_folder()
    assert stat.S_IMODE((here / "mlruns").stat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["link", "file", "another's"])
def test_mlruns_that_is_not_ours_is_refused(here, what):
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)  # whatever the umask, which a command run in this process may have narrowed
    if what == "link":
        (here / "mlruns").symlink_to(elsewhere)
    elif what == "file":
        (here / "mlruns").write_text("")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can make another user's folder")
        (here / "mlruns").mkdir()
        os.chown(here / "mlruns", NOBODY, NOBODY)
    with pytest.raises(StudyInvalid, match="is a link, a file or another user's folder"):
        Stores().make_folder()
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755


NOISY = """
import ctypes, os, subprocess, sys
from dpbo.flows.cli.running import own_output
c = ctypes.CDLL(None)
c.printf(b"before\\n")
with own_output():
    print("python")
    c.printf(b"of a C library, held back in its buffer\\n")
    os.write(1, b"raw\\n")
    subprocess.run(["echo", "of a child"], check=True)
    sys.stderr.write("error\\n")
print("after")
"""


def test_libraries_do_not_write_to_standard_output():
    done = run([sys.executable, "-c", NOISY], ".", os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert sorted(done.stdout.split()) in (["after"], ["after", "before"])
    assert done.stderr == "error\n"


@pytest.mark.slow
def test_a_run_leaves_no_file_that_others_read(here, tables):
    """Whatever the user's umask; and what a refused run leaves, too: no pickle of it."""
    here.chmod(0o755)
    tables["study"]["method"] = "private_grid"
    for name, epsilon in (("fits", 1.0), ("dear", 9.0)):
        tables["study"]["name"], tables["privacy"]["epsilon"] = name, epsilon
        (here / f"{name}.toml").write_text(tomli_w.dumps(tables))
        done = run(command("tune", f"{name}.toml"), here, environment(here), umask=0)
        assert done.returncode == (0 if name == "fits" else 3), done.stderr
    reach = [path for path in here.rglob("*") if is_open(path, here)]
    assert {path.name for path in reach} <= {"fits.toml", "dear.toml", "tmp"}
    assert not list((here / "prefect").glob("storage/*"))


def is_open(path, top):
    """Whether others can get to it and read it."""
    folders = [folder for folder in path.parents if folder.is_relative_to(top) and folder != top]
    is_reached = all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)
    return is_reached and bool(path.lstat().st_mode & stat.S_IROTH)


@pytest.mark.slow
def test_what_a_flow_raises_is_not_pickled(here, tables, prefect_server, tmp_path_factory):
    """Prefect pickles the exception of a failed flow into its storage, as the flow without our policy shows."""
    from prefect import flow
    from prefect.settings import PREFECT_LOCAL_STORAGE_PATH, temporary_settings

    from dpbo.flows.tune import tune_privately
    from dpbo.tasks import policies

    storage = tmp_path_factory.mktemp("storage")
    tables["budget"]["epsilon"] = 0.5

    def fails():
        raise KeyError("zq7-pickled")

    with temporary_settings({PREFECT_LOCAL_STORAGE_PATH: storage}):
        with pytest.raises(BudgetRefused):
            tune_privately(StudySpec.from_dict(tables))
        with pytest.raises(KeyError, match="zq7-pickled"):
            policies.private_flow(name="ours", **policies.FLOW_OPTIONS)(fails)()
        assert [path for path in storage.rglob("*") if path.is_file()] == []
        with pytest.raises(KeyError):
            flow(name="plain", **policies.FLOW_OPTIONS)(fails)()
        assert [path for path in storage.rglob("*") if path.is_file()] != []  # so the policy is what prevents it


def test_nothing_can_be_kept():
    from dpbo.tasks.policies import prefect_classes

    serializer = prefect_classes()[1]()
    with pytest.raises(ValueError, match="not kept"):
        serializer.dumps(KeyError("x"))
    with pytest.raises(ValueError, match="nothing was kept"):
        serializer.loads(pickle.dumps(1))
