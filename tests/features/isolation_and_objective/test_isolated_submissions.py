"""A model that is handed in to a private objective and scored in processes of their own."""

from in_process import without_processes
from test_private_objective import X, Y, objective
from unlisted_model import OfFirstColumn


def test_what_is_scored_one_by_one_needs_no_vouching(url, monkeypatch):
    without_processes(monkeypatch)
    asked = objective(url, rowwise="enforced", accepts=("public_models",), epsilon=4.0)
    asked.submit(OfFirstColumn().fit(X, Y))
    assert asked.guarantee_.assumptions == ("public_questions", "public_models")
