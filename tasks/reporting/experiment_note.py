"""What an experiment in MLflow is described by: how to read any run of it."""

import hashlib

NOTE_TAG = "mlflow.note.content"  # which MLflow renders above an experiment's runs, and above a run's numbers
NOTE = """\
Every number here is a **differentially private release**; no raw validation score is stored.

* Open a run: its page begins with what came out and how sure it is, what was tuned, what may be concluded about a
  person, what is left, and how the model is used. A run named after a study alone is the one above its editions.
* `release/score` is what a study edition released, with its noise (it may lie outside the score's range) and the
  ends of its 90% interval; `release/NAME`, with NAME the metric's (`release/log_loss`), is the same in the metric's
  own unit where that is another number. Its step is the edition's place in the dataset's account.
* `budget/spent` and `budget/left` are ε of the dataset's account after the edition.
* `trajectory/…` is its private trajectory: at each step the noised score, and what the scores so far say of that
  step's candidate (`posterior`, with its 90% band `low` … `high`).
* `evaluation/…` are the figures of a report; what noise and what sampling leave open of each are parameters.
  `watch/alarm` is a watch: a look a step, 0 holds, 1 alarm.
* Parameters say ε, δ, the noise with its unit, the choice (`release.NAME`) and public facts. Tags find runs:
  ``tags.`dpbo.study` = 'NAME'``, and `dpbo.edition`, `dpbo.method`, `dpbo.dataset`, `dpbo.unit`, `dpbo.kind`
  (`edition`, `evaluation`, `watch`, `study`).
* `release.html` is the certificate, `release.json` the same for programs: `dpbo verify release.json` recomputes ε
  and δ from it alone. `model/` is trained on the public set at the released hyperparameters.
"""
# SHA-256 of every description there ever was, today's too: one that is none of these is somebody's own.
WRITTEN = frozenset(
    (
        "26068f3f0dae6cca54e9f3188eaec2b84d4cbfb68b459f0b91cf3c0bfc8259ca",
        "f4ffa094201c826b114833c54e36f0a1ac416274e78134e20ee8be95fe566fd9",
        "88d884f4800b6f9df5df0a3a155d6db43f6108ddc091b4aaa58d9e54a1006547",
        "10cce9c0fa8ad30b666aa4d7dc075e9a24365ee8d98e2b2c2947f847ba54615d",
    )
)


def is_an_older_one(note: str | None) -> bool:
    """Whether an earlier version of this program wrote `note`, and nobody changed it."""
    return note is not None and note != NOTE and digest(note) in WRITTEN


def digest(note: str) -> str:
    """By which a description is known."""
    return hashlib.sha256(note.encode()).hexdigest()
