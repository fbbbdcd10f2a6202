"""The short forms of the campaigns that `make audit` runs in full."""

from audit import hostile, timing

from dpbo_core.study import StudySpec


def test_hostile_files_give_their_records_and_say_nothing():
    figures = hostile.campaign(400, seed=1)
    assert figures.files == 400
    assert figures.clean, figures


def test_a_reader_that_raises_is_counted(monkeypatch):
    def fragile(path, **named):
        raise ValueError

    monkeypatch.setattr(hostile, "read_table", fragile)
    assert hostile.campaign(3).raised == 3


def test_timing_is_measured_for_every_method_with_something_to_hide(tables):
    found = {(item.method, item.quantity) for item in timing.measure(StudySpec.from_dict(tables), 2)}
    assert ("lipschitz", "exact score") in found
    assert ("private_trajectory", "size of the noise") in found
