"""The sealed evaluator in five minutes: three hospitals, eight vendors, one search, one cheater; `make demo`.

Everything is simulated. The hospitals run public commands (`dpbo …`); the vendors, Optuna (which it needs) and the
cheater's 500 submissions the public interface (`from dpbo_core import …`). Hospital A has a board: on the left as
boards are, with exact accuracies, on the right with private ones. `python examples/demo.py FILE.png` draws a page.
"""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("age", "pressure", "sugar", "scan", "gene")
HOSPITALS, PATIENTS = "abc", 2000
VENDORS = {  # what each looks at
    "ada": ["age", "pressure", "sugar", "scan", "gene"], "bell": ["age"], "curie": ["age", "pressure"],
    "darwin": ["sugar", "gene"], "euler": ["pressure", "sugar"], "fermi": ["gene"], "gauss": ["pressure"],
    "hopper": ["age", "scan"],
}  # fmt: skip
ACCEPTED = ["public_questions", "public_models", "rowwise_predictions"]
PAIRS, SEARCHED = 10, 12  # of the cheater's submissions, to read one label each; scores of the honest search
NOISE_FREE = "#c2410c", "#1f2933"  # colours of an exact board and of ours


def people(seed, n, *, rarer=0.0):
    """Patients; where illness is rarer, by so much in log-odds, a model made elsewhere says too much."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, len(COLUMNS))), columns=COLUMNS)
    odds = table @ np.array([0.9, 0.5, 0.8, 1.0, 0.7]) - rarer
    return table.assign(ill=(rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * odds))).astype(int))


def study(name, dataset, sections="", n=PATIENTS):
    """A study file on public.csv and patients.csv."""
    return f"""[study]
name = "{name}"
method = "private_grid"
accepts = {json.dumps(ACCEPTED)}
[privacy]
dataset = "{dataset}"
epsilon = 1.0
delta = 1e-6
[data]
training = "public.csv"
validation = "patients.csv"
n_validation = {n}
target = "ill"
[model]
estimator = "sklearn.linear_model.LogisticRegression"
score = "accuracy"
[space]
C = {{ low = 1e-3, high = 10.0, log = true, points = 8 }}
{sections}
"""


@dataclass
class Place:
    """A folder with a ledger and a key of its own."""

    folder: Path

    def run(self, *words, code=0):
        """The ended process of a command, with what it printed; it must end with `code`."""
        command = [str(Path(sys.executable).with_name("dpbo")), *map(str, words)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DPBO_")}
        done = subprocess.run(  # noqa: S603  our own command
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != code:
            raise SystemExit(f"dpbo {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *words):
        """The object that a command prints."""
        return json.loads(self.run(*words, "--json").stdout)

    def objective(self, name):
        """The private objective of a study file of this place."""
        from dpbo import PrivateObjective

        return PrivateObjective.from_study(self.folder / name, f"sqlite:///{self.folder}/mlruns/ledger.db")

    def write(self, name, text):
        """A file of this place."""
        (self.folder / name).write_text(text)


def say(text):
    """A line of the story, at once."""
    print(text, flush=True)


def vendor_models(home):
    """Eight vendors' models, each trained on the public file and chosen on patients of the vendor's own."""
    from dpbo import FinalModel, PrivacyLedger, StudySpec, run_study

    ledger = PrivacyLedger(f"sqlite:///{home / 'vendors.db'}")
    for seed, (vendor, columns) in enumerate(VENDORS.items(), 20):
        folder = home / vendor
        folder.mkdir()
        public, rng = people(1, 1000), np.random.default_rng(seed)
        for column in set(COLUMNS) - set(columns):  # what this vendor never measured is noise
            public[column] = rng.normal(size=len(public))
        public.to_csv(folder / "public.csv", index=False)
        people(seed, 500).to_csv(folder / "patients.csv", index=False)
        tables = tomllib.loads(study(vendor, vendor, n=500)) | {"budget": {"epsilon": 1.0, "delta": 1e-6}}
        spec = StudySpec.from_dict(tables)
        release = run_study(spec, ledger=ledger, folder=folder).release
        FinalModel.of_release(spec, folder, release).save(home / f"{vendor}.model")


def hospitals(home):
    """Three places, each with the public file, its patients, a cap and a key."""
    places = {}
    for seed, name in enumerate(HOSPITALS, 10):
        place = places[name] = Place(home / name)
        place.folder.mkdir()
        people(1, 1000).to_csv(place.folder / "public.csv", index=False)
        people(seed, PATIENTS, rarer=1.2 * (name == "b")).to_csv(place.folder / "patients.csv", index=False)
        place.write("report.toml", study("report", f"hospital-{name}", "[evaluation]\nepsilon = 1.0\nbins = 10"))
        if name == "a":
            for board, scores in (("board", len(VENDORS)), ("search", SEARCHED), ("cheater", 500)):
                place.write(f"{board}.toml", study(board, "hospital-a", f"[objective]\nscores = {scores}"))
        accepted = [word for name in ACCEPTED for word in ("--accept", name)]
        place.run("budget", "set", f"hospital-{name}", "--epsilon", 4, "--delta", "1e-5", *accepted)
        place.run("budget", "keys", "new")
    return places


def vendors_compete(home, a, truth):
    """Exact and private accuracy of each vendor's model on hospital A's patients."""
    from dpbo import FinalModel

    rows = pd.read_csv(a.folder / "patients.csv")
    models = {name: FinalModel.load(home / f"{name}.model") for name in VENDORS}
    exact = {name: float((model.predict(rows) == truth).mean()) for name, model in models.items()}
    board = a.objective("board.toml")
    private = {name: board.submit(model).value for name, model in models.items()}
    return exact, private


def honest_search(a):
    """The best penalty of an Optuna study over private scores."""
    import optuna

    objective = a.objective("search.toml")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0)).optimize(
        lambda trial: objective({"C": trial.suggest_float("C", 1e-3, 10.0, log=True)}), n_trials=SEARCHED
    )
    return objective.best()


def cheat(truth, score, submissions=500):
    """What 500 submissions tell of hidden labels: the rising vote's accuracy, and ten labels read off pairs.

    Args:
        truth: the hidden labels, (m,).
        score: asked for the accuracy of predictions under a name.
    """
    rng, m = np.random.default_rng(7), len(truth)
    votes = rng.integers(0, 2, (submissions - 2 * PAIRS, m))
    scores = np.array([score(vote, f"try {number}") for number, vote in enumerate(votes)])
    weighed = np.cumsum((scores - 0.5)[:, None] * (2 * votes - 1), axis=0)
    rise, read = ((weighed > 0) == truth).mean(axis=1), 0
    for patient in range(PAIRS):  # two submissions that differ in one patient alone
        guess = rng.integers(0, 2, m)
        other = np.where(np.arange(m) == patient, 1 - guess, guess)
        right = score(guess, f"one {patient}") > score(other, f"other {patient}")
        read += (guess if right else other)[patient] == truth[patient]
    return rise, int(read)


def bare_check(folder):
    """Check a receipt without dpbo, in an interpreter with one package besides the standard library."""
    import cffi
    import cryptography

    bare, site = folder / "bare", Path(cryptography.__file__).parents[1]
    bare.mkdir(exist_ok=True)
    (bare / "check_receipt.py").write_text((ROOT / "examples" / "check_receipt.py").read_text())
    for path in (site / "cryptography", *site.glob("_cffi_backend*"), Path(cffi.__file__).parent):
        (bare / path.name).symlink_to(path)
    start = (
        f"import runpy, sys; sys.path.insert(0, {str(bare)!r}); sys.argv[1:] = ['release.json', 'release.pub']; "
    )
    command = [sys.executable, "-I", "-S", "-c", start + "runpy.run_path(sys.path[0] + '/check_receipt.py')"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603


def the_board(home, a):
    """Hospital A's two boards: vendors, a search, a cheater, and what the cap refuses; figures as a dict."""
    from dpbo import NoScoresLeft

    truth = pd.read_csv(a.folder / "patients.csv")["ill"].to_numpy()
    exact, private = vendors_compete(home, a, truth)
    winner = max(private, key=private.get)
    say(f"The exact board's winner: {max(exact, key=exact.get)}. Ours, ε = 1 for all: {winner}.")
    best = honest_search(a)
    say(f"Optuna found C = {best['C']:.3g} with {SEARCHED} private scores.")

    board = a.objective("cheater.toml")
    left, read_left = cheat(truth, lambda vote, _: float((vote == truth).mean()))
    right, read_right = cheat(truth, lambda vote, name: board.submit_predictions(vote, name=name).value)
    say(f"A cheater of 500 submissions reaches {left[-1]:.3f} on the exact board, {right[-1]:.3f} on ours,")
    say(f"and reads {read_left} of {PAIRS} labels off two scores each there, {read_right} here (a coin: 5).")

    try:
        refused = str(board.submit_predictions(truth, name="one more"))
    except NoScoresLeft as error:
        refused = error.what
    a.write("more.toml", study("more", "hospital-a").replace("epsilon = 1.0", "epsilon = 3.0"))
    capped = a.run("tune", "more.toml", code=3).stderr
    say(f"Submission 501: {refused}.\nOne study more: {first_sentence(capped)}")
    return {
        "exact": exact, "private": private, "left": left, "right": right, "read": (read_left, read_right),
        "winner": winner,
    }  # fmt: skip


def first_sentence(refusal):
    """What a refusal says happened."""
    return refusal[refusal.index("dpbo: ") :].partition(" Usual cause")[0].strip()


def the_reports(places, model):
    """The winner at every hospital, repaired at B, its receipts verified, and summed; figures as a dict."""
    reports = {}
    for name, place in places.items():
        more = ("--repair",) if name == "b" else ()
        reports[name] = place.json("evaluate", "report.toml", "--model", model, *more)
        place.run("show", "report/evaluation", "--out", "release.json")
    files = [f"../{name}/release.json" for name in places]
    for name, file in zip(places, files, strict=True):
        places["a"].run("verify", file, "--key", f"../{name}/mlruns/signing.pub")
    pooled, repair = places["a"].json("show", *files), reports["b"]["repair"]
    loss = [repair[side]["metrics"]["mean_log_loss"]["value"] for side in ("before", "after")]
    say(
        f"Hospital B's probabilities are repaired: log-loss {loss[0]:.3f} before, {loss[1]:.3f} after, at no price."
    )
    p = pooled["disagreement"]["p_value"]
    say(f"Three receipts verified, three tables summed. The sites disagree: {p <= 0.05} (p = {p:.3g}).")
    checked = bare_check(places["b"].folder)
    if checked.returncode:
        raise SystemExit(checked.stderr)
    say(f"Hospital B's receipt, by twenty lines without dpbo: {checked.stdout.strip()}")
    return {"reports": reports, "pooled": pooled, "loss": loss}


def demonstrate(home, picture):
    """The whole story, and one picture of its four scenes; its figures as a dict."""
    say("Three hospitals set a cap of (4, 1e-5) and make a key each; eight vendors train on public patients.")
    vendor_models(home)
    places = hospitals(home)
    figures = the_board(home, places["a"])
    figures |= the_reports(places, f"../{figures['winner']}.model")
    draw(figures, picture)
    return figures


def draw(figures, path):
    """One page of four pictures: vendors, the cheater, hospital B, the three sites and their sum."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 7.4), layout="constrained")
    ((vendors, cheater), (mended, sites)) = figure.subplots(2, 2)
    names = sorted(VENDORS, key=figures["exact"].get)
    for values, colour, label in zip(
        (figures["exact"], figures["private"]), NOISE_FREE, ("exact", "ours, ε = 1 for all eight"), strict=True
    ):
        vendors.plot([values[name] for name in names], names, "o", color=colour, label=label)
    vendors.set(title="Hospital A's board: the same vendor wins", xlabel="accuracy")
    for rise, read, colour, label in zip(
        (figures["left"], figures["right"]), figures["read"], NOISE_FREE, ("exact", "ours"), strict=True
    ):
        label += f": {read} of {PAIRS} labels read off pairs"
        cheater.plot(np.arange(1, len(rise) + 1), rise, color=colour, label=label)
    cheater.axhline(0.5, color="#7b8794", lw=0.8, ls=":", label="guessing")
    cheater.set(title="The cheater's vote; ours, ε = 1 for all 500", xlabel="submissions", ylim=(0.45, 0.8))
    cheater.set_ylabel("accuracy on hidden labels")
    bins = figures["reports"]["b"]["repair"]
    for side, colour in zip(("before", "after"), NOISE_FREE, strict=True):
        rows = [
            row
            for row in bins[side]["calibration"]
            if row["predicted"] is not None and row["observed"]["value"] is not None
        ]
        mended.plot(
            [row["predicted"] for row in rows],
            [row["observed"]["value"] for row in rows],
            "o-",
            color=colour,
            label=side,
        )
    mended.plot([0, 1], [0, 1], color="#7b8794", lw=0.8, ls=":")
    mended.set(title="Hospital B: the model, repaired", xlabel="the model says", ylabel="of them ill")
    shown = [
        (site["dataset"].removeprefix("hospital-").upper(), site["metrics"]) for site in figures["pooled"]["sites"]
    ]
    shown.append(("all three", figures["pooled"]["value"]["metrics"]))
    for place, (_, metrics) in enumerate(shown):
        value, (low, high) = metrics["auc"]["value"], metrics["auc"]["noise_interval"]
        sites.plot([low, high], [place, place], color="#1f2933", lw=2)
        sites.plot(value, place, "o", color="#1f2933")
    sites.set_yticks(range(len(shown)), [name for name, _ in shown])
    p = figures["pooled"]["disagreement"]["p_value"]
    title = f"The winner by site, and summed (alike: p = {p:.3g})"
    sites.set(title=title, xlabel="AUC, 90% by the noise")
    for axes in (vendors, cheater, mended, sites):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in (vendors, cheater, mended):
        axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=96)


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        demonstrate(Path(scratch), Path(sys.argv[1] if len(sys.argv) > 1 else "demo.png"))
