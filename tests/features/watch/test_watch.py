"""Many looks for one price: the bit and nothing more, whatever is killed, restored, raced or asked again."""

import json
import math
import multiprocessing
import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from canary import forms_of_number, search
from test_evaluation import files, of_files

from dpbo.features.watch import looks, todays_table
from dpbo.features.watch.command import plan_json, print_plan
from dpbo.features.watch.looks import look_once
from dpbo.features.watch.recorded_looks import WatchOver
from dpbo.features.watch.terms import PairMeasure
from dpbo.features.watch.watching import plan_watch
from dpbo.tasks.reporting.overview import overview
from dpbo_core.errors import (
    BudgetExceeded,
    CertificateFalse,
    DpboError,
    LedgerDamaged,
    PolicyRefused,
    Sealed,
    StudyInvalid,
)
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.reservation import Reservation
from dpbo_core.ledger.sources import file_source
from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.mechanisms.noise_vault import NoiseVault, Shredded
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.query import QueryContext
from dpbo_core.study.tuning import run_study

SURE = WatchSection(drop=0.2, epsilon=20.0)  # of noise that no test will ever see


def _turned(line):
    """A record with the other label."""
    return f"{line[:-1]}{1 - int(line[-1])}"


class Place:
    """A tuned study on files, with its ledger and its vault."""

    def __init__(self, folder, **changes):
        self.folder, self.vaults = folder, folder / "vaults"
        tables = of_files(**changes)
        tables["budget"] = {"epsilon": 100.0, "delta": 1e-5}
        tables["privacy"]["epsilon"] = 40.0  # of ε = 1 one reference in 180 is too high by its noise
        self.spec = StudySpec.from_dict(tables)
        self.url = f"sqlite:///{folder / 'ledger.db'}"
        run_study(self.spec, ledger=self.ledger, folder=folder)

    @property
    def ledger(self):
        return PrivacyLedger(self.url)

    def look(self, name, section=SURE, **more):
        spec = more.pop("spec", self.spec)
        return look_once(
            spec, ledger=self.ledger, folder=self.folder, vaults=self.vaults, name=name, section=section, **more
        )

    def spoil(self):
        """The model is wrong about every record from now on."""
        lines = (self.folder / "validation.csv").read_text().splitlines()
        (self.folder / "validation.csv").write_text("\n".join([lines[0], *map(_turned, lines[1:])]) + "\n")

    @property
    def vault(self):
        (found,) = self.vaults.iterdir()
        return found

    def entries(self):
        return [(entry.study, entry.epsilon) for entry in self.ledger.accounts("clinic")[0].entries]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    files(folder)
    return Place(folder)


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of a tuned study of its own, and a user who saw no ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(made.folder, tmp_path / "here")
    copy = object.__new__(Place)
    copy.folder, copy.vaults, copy.spec = tmp_path / "here", tmp_path / "here" / "vaults", made.spec
    copy.url = f"sqlite:///{copy.folder / 'ledger.db'}"
    copy.ledger.allow("clinic", file_source(copy.folder / "validation.csv"))
    return copy


# One price, one bit a look


def test_looks_that_hold_cost_one_price_together(place):
    before = place.ledger.accounts("clinic")[0].spent
    found = [place.look(f"day {day}") for day in range(1, 6)]
    assert [(look.alarm, look.number, look.replayed) for look in found] == [(False, n, False) for n in range(1, 6)]
    after = place.ledger.accounts("clinic")[0].spent
    assert after.epsilon_units - before.epsilon_units == 20 * 10**12
    assert after.rho_units - before.rho_units == pytest.approx(200 * 10**12, rel=1e-9)  # ε²/2 of one mechanism
    assert place.entries() == [("clinic", 40.0), ("clinic/watch", 20.0)]
    guarantee = found[0].guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.assumptions) == (20.0, 0.0, ())
    assert found[-1].release is None
    _, threshold, noise = _kept(place)  # every look has noise of its own
    assert len({threshold, *(nu for _, nu in noise.values())}) == 6
    assert len({identity for identity, _ in noise.values()}) == 5


def test_a_fall_raises_the_alarm_and_ends_the_watch(place):
    """Of each look the ledger keeps its bit, which whoever asks again is told, and nothing is read."""
    first = place.look("monday")
    assert not first.alarm
    place.spoil()
    assert place.look("monday") == replace(first, replayed=True)
    found = place.look("tuesday")
    assert (found.alarm, found.number, found.replayed) == (True, 2, False)
    assert found.release.value == {"alarm": True, "look": "tuesday", "looks": 2}
    with pytest.raises(StudyInvalid, match="'tuesday' raised the alarm"):
        place.look("wednesday")
    assert len(place.entries()) == 2
    told, bits = _draws(place), {"look monday": (1, False), "look tuesday": (2, True)}
    assert set(told) == {"noise of the threshold", *(f"noise of {look}" for look in bits), *bits}
    assert all(told[look][0] == {"look": number, "alarm": bit} for look, (number, bit) in bits.items())
    assert set(told["noise of look monday"][0]) == {"noise"}
    (entry,) = [e for e in place.ledger.recorded("clinic/watch") if e.release]
    assert entry.release == found.release
    again = place.look("wednesday", SURE.replace(edition="2"))  # another watch is another spend
    assert again.alarm
    assert place.entries()[-1] == ("clinic/watch", 20.0)
    (place.folder / "validation.csv").unlink()
    assert not place.look("monday").alarm
    assert place.look("tuesday").alarm


def test_two_watches_of_one_model_are_kept_apart_and_a_changed_term_is_refused(place):
    place.look("monday")
    for changed in (
        SURE.replace(drop=0.3),
        SURE.replace(epsilon=10.0),
        SURE.replace(reference=0.5),
        SURE.replace(least_records=200),
    ):
        with pytest.raises(StudyInvalid, match="was opened with"):
            place.look("tuesday", changed)
    assert place.look("tuesday", WatchSection()).number == 2  # what is not said is as it was opened
    assert len(place.entries()) == 2


def test_a_watch_is_stated_in_the_study_and_is_no_part_of_its_key(place):
    written = place.spec.to_dict() | {"watch": {"drop": 0.2, "epsilon": 20.0, "edition": "1"}}
    spec = StudySpec.from_dict(written)
    assert spec.to_dict() == written
    assert look_once(spec, ledger=place.ledger, folder=place.folder, vaults=place.vaults, name="monday").number == 1
    for wrong in ({"drop": 0.0}, {"drop": -1.0}, {"least_records": 1}, {"epsilon": 0.0}, {"table": " "}, {"x": 1}):
        with pytest.raises(StudyInvalid):
            StudySpec.from_dict(written | {"watch": wrong})
    with pytest.raises(StudyInvalid, match="states no drop"):
        place.look("monday", WatchSection(epsilon=1.0, edition="other"))


# What decides that a look is refused


def test_a_smaller_table_is_refused_by_its_public_size_and_a_larger_one_is_not(place):
    place.look("monday", SURE.replace(least_records=290))
    path = place.folder / "validation.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:280]))
    with pytest.raises(StudyInvalid, match="279 records, and this watch needs 290"):
        place.look("tuesday", WatchSection())
    assert "noise of look tuesday" not in _draws(place)
    path.write_text("".join([*lines, *lines[1:]]))
    assert place.look("tuesday", WatchSection()).number == 2


def test_the_owner_s_policy_holds_for_every_look(place):
    place.look("monday")
    shutil.copy(place.folder / "validation.csv", place.folder / "other.csv")
    with pytest.raises(PolicyRefused):
        place.look("tuesday", SURE.replace(table="other.csv"))
    place.ledger.allow("clinic", file_source(place.folder / "other.csv"))
    assert place.look("tuesday", SURE.replace(table="other.csv")).number == 2


def test_without_room_nothing_is_opened(place):
    with pytest.raises(BudgetExceeded):
        place.look("monday", SURE.replace(epsilon=1000.0))
    assert place.entries() == [("clinic", 40.0)]
    assert not any(place.vault.glob("noise.json"))


def test_a_study_that_released_no_model_has_nothing_to_watch(place):
    untuned = place.spec.replace(edition="2")
    with pytest.raises(StudyInvalid, match="has released nothing yet"):
        place.look("monday", spec=untuned)
    plan = plan_watch(untuned, ledger=place.ledger, folder=place.folder, section=SURE)
    assert plan.spread == 0.5


# Kills, restored copies, two at once


def _draws(place):
    return place.ledger.drawn(
        looks.watching(place.spec, QueryContext(place.ledger, place.folder), SURE).key.fingerprint
    )


class Killed(BaseException):
    """Stands for a process that ends at once: nothing of ours catches it and goes on."""


def killed_after(monkeypatch, n):
    """A process that ends right after its n-th durable write; the list of those it made."""
    import dpbo_core.ledger.reservation as reservation
    import dpbo_core.mechanisms.noise_vault as noise_vault

    written = []

    def counted(call):
        def write(*args, **options):
            found = call(*args, **options)
            written.append(call.__name__)
            if len(written) == n:
                raise Killed
            return found

        return write

    monkeypatch.setattr(noise_vault, "replace_atomically", counted(noise_vault.replace_atomically))
    for name in ("record", "conclude"):
        monkeypatch.setattr(reservation.Reservation, name, counted(getattr(reservation.Reservation, name)))
    monkeypatch.setattr(PrivacyLedger, "reserve", counted(PrivacyLedger.reserve))
    return written


def killed_at_tuesday(place, monkeypatch, n):
    """Tuesday's look ends after its n-th write: taken over, ν, began, the bit kept, the bit told, the release."""
    with monkeypatch.context() as patch:
        killed_after(patch, n)
        with pytest.raises((Killed, Sealed)):
            place.look("tuesday")


WRITES = 9  # reserve, z, terms, ν, began, bit in the vault, bit in the ledger; of an alarm its release, and "over"


@pytest.mark.parametrize("n", range(1, WRITES + 1))
def test_a_kill_after_any_durable_write_draws_nothing_twice_and_pays_once(place, monkeypatch, n):
    place.spoil()
    with monkeypatch.context() as patch:
        written = killed_after(patch, n)
        # what fails in shredding is told nobody
        with pytest.raises((Killed, Sealed)) if n < WRITES else nullcontext():
            place.look("monday")
        assert len(written) == n
    before = _kept(place)
    assert n < WRITES or before == "shredded"
    drawn, after = [], []
    with monkeypatch.context() as patch:
        for name in ("draw_threshold", "draw_comparison"):
            _count(patch, name, drawn)
        shred = NoiseVault.shred
        patch.setattr(NoiseVault, "shred", lambda vault: (after.append(_kept(place)), shred(vault))[1])
        found = place.look("monday")
    assert found.alarm
    assert found.number == 1
    assert found.release.value["look"] == "monday"
    assert place.entries() == [("clinic", 40.0), ("clinic/watch", 20.0)]
    assert drawn == ["draw_threshold"] * (n < 2) + ["draw_comparison"] * (n < 4)
    if n == WRITES:
        assert after == ["shredded"]
    elif before is not None:
        assert after[0][:2] == before[:2]
        assert before[2].items() <= after[0][2].items()
    assert _kept(place) == "shredded"


def _kept(place):
    """What the vault holds: its identity, z, and each look's identity and ν; None before anything is."""
    try:
        kept = NoiseVault(place.vault).contents()
    except Shredded:
        return "shredded"
    if kept is None:
        return None
    noise = {name: (look.identity, look.noise.expose()) for name, look in kept.looks.items()}
    return kept.identity, kept.threshold.expose(), noise


def _count(patch, name, drawn):
    call = getattr(AboveThreshold, name)
    patch.setattr(AboveThreshold, name, lambda *args: (drawn.append(name), call(*args))[1])


def test_a_bit_that_was_found_before_a_kill_is_not_found_anew_on_another_table(place, monkeypatch):
    place.look("monday")
    killed_at_tuesday(place, monkeypatch, 4)
    place.spoil()
    assert not place.look("tuesday").alarm
    assert place.look("wednesday").alarm


def test_a_look_that_was_killed_at_its_alarm_is_an_alarm_before_anybody_looks_on(place, monkeypatch):
    place.look("monday")
    place.spoil()
    killed_at_tuesday(place, monkeypatch, 4)
    assert "look tuesday" not in _draws(place)
    with pytest.raises(WatchOver, match="'tuesday' raised the alarm"):
        place.look("wednesday")
    assert "noise of look wednesday" not in _draws(place)
    found = place.look("tuesday")
    assert (found.alarm, found.number, found.release.value["look"]) == (True, 2, "tuesday")


def test_two_machines_that_open_one_watch_at_once_are_one_too_many(place):
    """The ledger has the vault of whoever was first."""
    place.look("monday")
    first, place.vaults = place.vaults, place.folder / "another machine's"
    with pytest.raises(DpboError, match="secret threshold of this watch is not here"):
        place.look("tuesday")
    ((vault, _),) = [_draws(place)["noise of the threshold"]]
    raced, honest = SURE.replace(edition="raced"), Reservation.recorded
    with pytest.MonkeyPatch.context() as patch:  # the other's terms are written just before ours would be
        unseen = "noise of the threshold"
        patch.setattr(Reservation, "recorded", lambda self, what: None if what == unseen else honest(self, what))
        patch.setattr(Reservation, "record", lambda self, spend, draw, check=None: vault)
        with pytest.raises(DpboError, match="secret threshold of this watch is not here"):
            place.look("monday", raced)
    place.vaults = first
    assert place.look("tuesday").number == 2


@pytest.mark.parametrize("began", [False, True])
def test_an_older_vault_than_the_ledger_s_last_look_is_refused(place, monkeypatch, began):
    """Of a look that only began, too: its noise would be drawn anew, and the ledger knows that it was drawn."""
    place.look("monday")
    shutil.copytree(place.vault, place.folder / "old")
    killed_at_tuesday(place, monkeypatch, 3) if began else place.look("tuesday")
    vault = place.vault
    shutil.rmtree(vault)
    shutil.copytree(place.folder / "old", vault)
    with pytest.raises(DpboError, match="older than its last look"):
        place.look("tuesday" if began else "wednesday")
    assert place.look("monday").number == 1  # what was recorded is shown all the same
    assert "noise of look wednesday" not in _draws(place)


def beside(place, monkeypatch):
    """Another look runs whole, with a copy of the noise, when all that the first asks beforehand was answered."""
    place.look("monday")
    copies = place.folder / "copies"
    shutil.copytree(place.vaults, copies)
    honest, others = looks.OpenLook._record, []

    def recorded(*words):
        if not others:
            others.append("b")
            others.append(
                look_once(
                    place.spec, ledger=place.ledger, folder=place.folder, vaults=copies, name="b", section=SURE
                ).alarm
            )
        honest(*words)

    monkeypatch.setattr(looks.OpenLook, "_record", recorded)
    return others


def test_two_copies_of_the_noise_give_no_bit_after_the_alarm(place, monkeypatch):
    others = beside(place, monkeypatch)
    place.spoil()
    with pytest.raises(StudyInvalid, match="look 'b' raised the alarm"):
        place.look("a")
    assert others == ["b", True]
    assert "look a" not in _draws(place)


def test_two_copies_of_the_noise_give_one_bit_after_the_other(place, monkeypatch):
    others = beside(place, monkeypatch)
    with pytest.raises(DpboError, match="another look was recorded"):
        place.look("a")
    assert others == ["b", False]
    assert "look a" not in _draws(place)
    with pytest.raises(DpboError, match="older than its last look"):  # of the copy's look it knows nothing
        place.look("tuesday")


def test_a_reference_or_a_fall_outside_the_score_s_range_is_refused(place):
    """In per cent, say: a count of pairs relative to it moves by more than its noise is made for."""
    before, said = place.entries(), "not a value of this score|cannot fall by"
    for stated in ({"reference": 85.0}, {"reference": -0.01}, {"drop": 1.01}):
        with pytest.raises(StudyInvalid, match=said):
            place.look("monday", SURE.replace(**stated))
    assert place.entries() == before
    for reference in (-1e-9, 1.0 + 1e-9, math.nan):  # and where a watch was opened with one
        with pytest.raises(StudyInvalid, match="no share of pairs"):
            PairMeasure(1, 0.3).value(None, None, reference)


# After the alarm nothing needs the noise


@pytest.mark.parametrize("again", ["tuesday", "wednesday", "monday"])  # the alarm itself, one more, one that held
def test_noise_that_a_kill_left_after_the_alarm_is_destroyed_by_whoever_asks_next(place, monkeypatch, again):
    place.look("monday")
    place.spoil()
    killed_at_tuesday(place, monkeypatch, 6)
    assert _kept(place)[2].keys() == {"monday", "tuesday"}
    if again == "wednesday":
        with pytest.raises(WatchOver, match="'tuesday' raised the alarm"):
            place.look(again)
    else:
        assert place.look(again).alarm == (again == "tuesday")
    assert _kept(place) == "shredded"
    assert {path.name for path in place.vault.iterdir()} == {"noise.json", "lock"}


@pytest.mark.parametrize("when", ["before the watch", "after a look that held", "before a watch that goes on"])
def test_a_ledger_that_is_older_than_the_alarm_opens_nothing_where_the_noise_was_destroyed(
    place, monkeypatch, tmp_path, when
):
    """Else a restored ledger would sell the same looks anew, with another z; nor where the vault still knows."""
    if when == "after a look that held":
        place.look("monday")
    before = {path: path.read_bytes() for path in place.folder.glob("*ledger.db*")}
    goes_on = when == "before a watch that goes on"
    if not goes_on:
        place.spoil()
    assert place.look("tuesday").alarm is not goes_on
    for path in place.folder.glob("*ledger.db*"):
        path.unlink()
    for path, content in before.items():
        path.write_bytes(content)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "forgotten"))
    with pytest.raises(LedgerDamaged, match="older than the watch's secret noise"):
        place.look("wednesday")


def test_what_the_file_held_is_overwritten_where_it_stood(place):
    """Through a second name of each file, which keeps its bytes in reach."""
    place.look("monday")
    (place.folder / "first").hardlink_to(place.vault / "noise.json")
    place.look("tuesday")
    (place.folder / "second").hardlink_to(place.vault / "noise.json")
    assert set((place.folder / "first").read_bytes()) == {0}
    assert b"threshold" in (place.folder / "second").read_bytes()
    place.spoil()
    assert place.look("wednesday").alarm
    assert set((place.folder / "second").read_bytes()) == {0}


def test_a_vault_that_is_gone_ends_the_watch(place):
    place.look("monday")
    (place.vault / "noise.json").unlink()
    with pytest.raises(DpboError, match="secret threshold of this watch is not here"):
        place.look("tuesday")
    (place.vault / "noise.json").write_text("{}")
    with pytest.raises(DpboError, match="cannot be read"):
        place.look("tuesday")
    assert place.look("tuesday", SURE.replace(edition="2")).number == 1


def _looking(folder, url, spec, name, answers):
    found = look_once(
        spec, ledger=PrivacyLedger(url), folder=folder, vaults=folder / "vaults", name=name, section=SURE
    )
    answers.put((name, found.alarm, found.number, found.replayed))


@pytest.mark.parametrize("names", [("monday", "monday"), ("monday", "tuesday")])
def test_two_looks_at_once_are_one_after_the_other(place, names):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    asked = [
        context.Process(target=_looking, args=(place.folder, place.url, place.spec, name, answers))
        for name in names
    ]
    for process in asked:
        process.start()
    found = [answers.get(timeout=120) for _ in asked]
    for process in asked:
        process.join()
    assert {alarm for _, alarm, _, _ in found} == {False}
    assert len(place.entries()) == 2
    if names[0] == names[1]:
        assert sorted(replayed for *_, replayed in found) == [False, True]
        assert {number for _, _, number, _ in found} == {1}
    else:
        assert sorted(number for _, _, number, _ in found) == [1, 2]


# Nothing else leaves


def test_nothing_of_a_record_or_of_the_noise_is_in_what_others_read(place, caplog, monkeypatch):
    z, nu = -987654321012, 123456789098
    monkeypatch.setattr(AboveThreshold, "draw_threshold", lambda *_: Sensitive(z))
    monkeypatch.setattr(AboveThreshold, "draw_comparison", lambda *_: Sensitive(nu))
    path = place.folder / "validation.csv"
    lines = path.read_text().splitlines()
    cells = lines[7].split(",")
    path.write_text("\n".join([*lines[:7], ",".join([*cells[:2], "0.7182818284", *cells[3:]]), *lines[8:]]) + "\n")
    with monkeypatch.context() as patch:  # to see that the search finds what is there
        patch.setattr(NoiseVault, "shred", lambda vault: None)
        found = place.look("monday")
    assert found.alarm
    kept = NoiseVault(place.vault).contents()
    assert (kept.threshold.expose(), kept.looks["monday"].noise.expose()) == (z, nu)
    left = place.folder / "left"
    left.mkdir()
    for file in place.folder.glob("*ledger.db*"):
        shutil.copy(file, left)
    (left / "said").write_text(repr((found, kept, _draws(place), found.release)) + caplog.text)
    numbers = (z, nu, 0.7182818284)
    secrets = {str(number): forms_of_number(float(number)) | {str(number).encode()} for number in numbers}
    assert search(left, secrets) == set()
    assert {which for _, which in search(place.vault, secrets)} == {str(z), str(nu)}  # it sees what is there
    assert oct(place.vault.stat().st_mode)[-3:] == "700"
    assert oct((place.vault / "noise.json").stat().st_mode)[-3:] == "600"
    assert place.look("monday").alarm
    assert search(place.vault, secrets) == set()


@pytest.mark.parametrize(("module", "call"), [(todays_table, "sensitive_half"), (looks, "replace")])
def test_a_failure_after_the_charge_says_nothing_and_a_rerun_goes_on(place, monkeypatch, module, call):
    secret, honest = "0.123456789", getattr(module, call)

    def fails(*args, **more):
        if call == "replace" and more != {"replayed": False}:  # of the look alone
            return honest(*args, **more)
        raise ValueError(secret)

    with monkeypatch.context() as patch:
        patch.setattr(module, call, fails)
        with pytest.raises(Sealed) as failed:
            place.look("monday")
    assert secret not in repr(failed.value)
    assert failed.value.__cause__ is failed.value.__context__ is None
    assert place.look("monday").number == 1


def test_the_certificate_of_an_alarm_is_recomputed_and_an_edited_one_is_refused(place):
    place.spoil()
    release = place.look("monday").release
    document = json.loads(json.dumps(release.to_json()))
    found = recompute(read_certificate(document, CERTIFIED), CERTIFIED)
    assert found.epsilon == pytest.approx(20.0, rel=1e-9)
    assert found.draws == 1

    def edited(**changes):
        told = json.loads(json.dumps(document))
        told["spends"][0] |= changes
        return read_certificate(told, CERTIFIED)

    for changes in (
        {"noise_scale": release.spends[0].noise_scale / 2},
        {"sensitivity": release.spends[0].sensitivity / 2, "noise_scale": release.spends[0].noise_scale / 2},
        {"mechanism": "discrete Laplace"},
        {"epsilon": 1.0},
    ):
        with pytest.raises(CertificateFalse):
            recompute(edited(**changes), CERTIFIED)


# Neighbours: one unit's records are replaced in today's table

KINDS = {
    "a mean": {},
    "an estimator": {
        "model": {"estimator": "sklearn.linear_model.LogisticRegression", "score": "log_loss"},
        "space": {"C": {"low": 0.1, "high": 1.0, "points": 2}},
    },
    "pairs": {"model": {"estimator": "logistic", "score": "roc_auc"}},
    "three records a person": {"privacy": {"person": "who", "max_records_per_person": 3}},
    "persons": {"privacy": {"person": "who"}, "data": {"n_persons": 100}},
}
HOSTILE = ["{who},f,1e308,-1e308,1", "{who},x,nan,inf,0", "{who},,,,", "{who},m,0,0,maybe", "{who},f,9e9,-9e9,0"]


def tuned_kind(tmp_path, monkeypatch, kind, *, accepts=()):
    """A study of that kind, tuned in a folder of its own, and its ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    files(tmp_path)
    tables = of_files(budget={"epsilon": 100.0})
    del tables["evaluation"]
    for section, changes in KINDS[kind].items():
        tables[section] = (tables[section] if section in ("privacy", "data") else {}) | changes
    if "n_persons" in tables["data"]:
        del tables["data"]["n_validation"]
    tables["privacy"]["epsilon"] = 40.0  # or a score far too low by its noise is nothing to fall from
    tables["study"]["accepts"] = list(accepts)
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    run_study(spec, ledger=ledger, folder=tmp_path)
    return spec, ledger


def test_a_plan_of_pairs_states_the_share_that_it_assumes(tmp_path, monkeypatch, capsys):
    spec, ledger = tuned_kind(tmp_path, monkeypatch, "pairs")
    plan = plan_watch(spec, ledger=ledger, folder=tmp_path, section=WatchSection(drop=0.1, epsilon=20.0))
    share = plan_json(plan)["assumed_share"]
    assert 0.0 < share == plan.share < 1.0
    print_plan(plan)
    told = " ".join(capsys.readouterr().out.split())
    assert (
        f"assumes {share:.1%} positive in every table, as in the public one; at {min(share, 1 - share) / 2:.1%}"
        in told
    )


def u_today(spec, ledger, folder, section):
    """What is compared with the threshold, of the files as they are now; and the Δ that is charged."""
    asked = looks.watching(spec, QueryContext(ledger, folder), section)
    measure, model, terms = asked.measure, asked.model(), asked.terms

    def u():
        table = todays_table.todays_table(spec, folder, asked.public, section, terms)
        value = measure.value(table.opened(asked.public)(), model, terms.reference)
        return measure.fall(terms.reference, table.n).of(value.expose())

    return u, measure.sensitivity(terms.least_records)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbouring_tables_are_compared_within_what_is_charged(tmp_path, monkeypatch, kind):
    """Whatever the record becomes, and whatever the table's size; and no such record is a reason to refuse it."""
    spec, ledger = tuned_kind(tmp_path, monkeypatch, kind)
    today, charged = u_today(spec, ledger, tmp_path, SURE)
    path = tmp_path / "validation.csv"
    header, *lines = path.read_text().splitlines()

    def u(records):
        path.write_text("\n".join([header, *records]) + "\n")
        return today()

    k = 3 if "person" in kind else 1
    moved = []
    for size in (300, 450):
        base = [*lines, *lines[:150]][:size]
        own, who = u(base), base[0].split(",")[0]
        moved += [abs(own - u([row.format(who=who)] * k + base[k:])) for row in HOSTILE]
    assert 0 < max(moved) <= charged
    found = []
    for turned in (False, True):  # and the whole of it: every kind is watched
        path.write_text("\n".join([header, *(_turned(line) if turned else line for line in lines)]) + "\n")
        vaults, name = tmp_path / "vaults", f"turned {turned}"
        wanted = SURE.replace(epsilon=50.0)
        look = look_once(spec, ledger=ledger, folder=tmp_path, vaults=vaults, name=name, section=wanted)
        found.append(look.alarm)
    assert found == [False, True]
    document = json.loads(json.dumps(look.release.to_json()))
    assert recompute(read_certificate(document, CERTIFIED), CERTIFIED).epsilon == pytest.approx(50.0, rel=1e-9)


# A pool: the last tables as one

POOL = SURE.replace(pool=3, table="day-{date}.csv", least_records=300)
ONCE_IN_A_POOL = {"a mean": 3, "pairs": 3, "three records a person": 3, "persons": 1}


def in_days(folder, days):
    """Tables of records, one a day, the last of them on the fourth of March."""
    header = "who,sex,a,b,ill"
    for day, records in enumerate(days, 5 - len(days)):
        (folder / f"day-2026-03-{day:02d}.csv").write_text("\n".join([header, *records]) + "\n")


@pytest.mark.parametrize("kind", ONCE_IN_A_POOL)
def test_who_is_in_every_table_of_a_pool_moves_it_within_what_is_charged(tmp_path, monkeypatch, kind):
    """One person is replaced in ALL tables: by three rows of a pool of three, unless persons are told apart."""
    spec, ledger = tuned_kind(tmp_path, monkeypatch, kind)
    u, charged = u_today(spec, ledger, tmp_path, POOL)
    lines = (tmp_path / "validation.csv").read_text().splitlines()[1:]
    k, rows = 3 if "person" in kind else 1, ONCE_IN_A_POOL[kind]
    who, old = lines[0].split(",")[0], lines[:k]
    best = [line for line in lines if line.split(",")[0] not in (who, lines[k].split(",")[0])]
    days = [best[:97], best[97:194], best[194:291]]
    moved = []
    for row in HOSTILE:
        seen = []
        for records in (old, [row.format(who=who)] * k):
            in_days(tmp_path, [[*records, *day, *lines[k : k + 3 - k]] for day in days])
            seen.append(u())
        moved.append(abs(seen[0] - seen[1]))
    one_row = -(-(2 if kind == "pairs" else 1) * 2**24 // 300)
    assert charged == pytest.approx(rows * one_row, abs=3)
    assert max(moved) <= charged
    if kind == "a mean":
        assert max(moved) > 2 * one_row  # the Δ of one table would be three times too small


def test_people_who_are_in_one_table_are_the_caller_s_word(tmp_path, monkeypatch):
    """The Assumption lowers Δ and is stated by the guarantee; the newest files are read, as many as was fixed."""
    spec, ledger = tuned_kind(tmp_path, monkeypatch, "a mean", accepts=["rows_in_one_table"])
    section = POOL.replace(epsilon=20.0)
    lines = (tmp_path / "validation.csv").read_text().splitlines()[1:]
    in_days(tmp_path, [["never read"], lines[:100], lines[100:200], lines[200:]])
    ledger.allow("clinic", file_source(tmp_path / "day-{date}.csv"))
    place = {"ledger": ledger, "folder": tmp_path, "vaults": tmp_path / "vaults"}
    look = look_once(spec, name="monday", section=section, **place)
    assert (look.alarm, look.terms.rows, look.terms.pool) == (False, 1, 3)
    assert look.guarantee.assumptions == ("rows_in_one_table",)
    with pytest.raises(StudyInvalid, match="was opened with pool = 3"):
        look_once(spec, name="tuesday", section=section.replace(pool=2), **place)
    with pytest.raises(StudyInvalid, match="no file name holds a date"):
        look_once(spec, name="tuesday", section=section.replace(pool=None), **place)
    (tmp_path / "day-2026-03-04.csv").unlink()  # the last three are older ones, and too few records
    with pytest.raises(StudyInvalid, match="201 records, and this watch needs 300"):
        look_once(spec, name="tuesday", section=section, **place)
    in_days(tmp_path, [list(map(_turned, lines))])
    alarm = look_once(spec, name="tuesday", section=section, **place)
    assert alarm.alarm
    document = json.loads(json.dumps(alarm.release.to_json()))
    assert recompute(read_certificate(document, CERTIFIED), CERTIFIED).epsilon == pytest.approx(20.0, rel=1e-9)


def test_a_pool_names_files_that_hold_the_time(place):
    for table in (None, "day.csv", "s3://bucket/day-{date}.parquet"):
        with pytest.raises(StudyInvalid, match="a pool reads the newest files"):
            place.look("monday", POOL.replace(table=table))


def test_a_pool_of_persons_that_lacks_a_file_is_refused_before_its_look(tmp_path, monkeypatch):
    """Whoever is in it would count as nothing: by its number at the first look, and by its name after another."""
    spec, ledger = tuned_kind(tmp_path, monkeypatch, "persons")
    section = POOL.replace(epsilon=20.0, least_records=100)
    lines = (tmp_path / "validation.csv").read_text().splitlines()[1:]
    in_days(tmp_path, [lines[:75], lines[75:150], lines[150:225], lines[225:]])
    ledger.allow("clinic", file_source(tmp_path / "day-{date}.csv"))
    place = {"ledger": ledger, "folder": tmp_path, "vaults": tmp_path / "vaults", "section": section}
    days = [tmp_path / f"day-2026-03-0{day}.csv" for day in (1, 2, 3, 4)]
    kept = [day.read_bytes() for day in days]
    spent = ledger.accounts("clinic")[0].spent
    for day in days[:2]:
        day.unlink()
    with pytest.raises(StudyInvalid, match=r"only day-2026-03-03\.csv, day-2026-03-04\.csv is there"):
        look_once(spec, name="monday", **place)
    assert ledger.accounts("clinic")[0].spent == spent
    for day, content in zip(days, kept, strict=True):
        day.write_bytes(content)
    look_once(spec, name="monday", **place)
    days[2].unlink()  # three are left, and one of them is too old
    with pytest.raises(StudyInvalid, match=r"day-2026-03-03\.csv is not there"):
        look_once(spec, name="tuesday", **place)
    days[2].write_bytes(kept[2])
    (tmp_path / "day-2026-03-05.csv").write_bytes(kept[0])
    days[0].unlink()  # too old by now: nobody asks for it
    assert look_once(spec, name="tuesday", **place).number == 2
    assert look_once(spec, name="monday", **place).replayed


def test_the_report_of_a_watch_says_alarm_and_not_to_ship(place):
    """Before it the checks are counted; a new edition is another model, of which the alarm says nothing."""
    place.look("monday")
    (held,) = overview(place.ledger, datetime.now(UTC))[0].studies
    assert (held.name, held.alarms) == ("clinic", ())
    assert any("no alarm in 1 check" in remark for remark in held.remarks)
    place.spoil()
    place.look("tuesday")
    dataset = overview(place.ledger, datetime.now(UTC))[0]
    (study,) = dataset.studies
    assert (study.ship, len(study.alarms), study.quoted) == ("no", 1, held.quoted)
    assert dataset.alarms == (f"clinic: {study.why}",)
    assert "fallen" in study.why
