"""All pictures of a release as PNG files, in the order a page shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.tasks.reporting.evaluation_picture import draw_evaluation, is_report
from dpbo.tasks.reporting.panels import draw_budget, draw_burn_down, draw_noise, draw_posterior
from dpbo.tasks.reporting.release_picture import draw
from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_pictures(release: Release, account: Account | None, folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """trajectory.png or release.png; posterior.png, noise.png, budget.png, burn_down.png where there is one.

    Of a report, evaluation.png in the place of the first three.

    Returns:
        The files, and the names of pictures that could not be drawn: no release waits for a picture.
    """
    figures: dict[str, Callable[[], Figure | None]] = {
        "trajectory" if "trajectory" in release.value else "release": lambda: draw(release),
        "posterior": lambda: draw_posterior(release),
        "noise": lambda: draw_noise(release),
    }
    if is_report(release):
        figures = {"evaluation": lambda: draw_evaluation(release)}
    figures["budget"] = lambda: None if account is None else draw_budget(account)
    figures["burn_down"] = lambda: None if account is None else draw_burn_down(account)
    folder.mkdir(parents=True, exist_ok=True)
    saved, failed = [], []
    for name, make in figures.items():
        try:
            saved += _saved(make, folder / f"{name}.png")
        except Exception:  # noqa: BLE001  matplotlib's, its backends' and its fonts'; the caller says what is missing
            failed.append(f"the picture {name}")
    return saved, tuple(failed)


def _saved(make: "Callable[[], Figure | None]", path: Path) -> list[Path]:
    from matplotlib import rc_context

    with rc_context({"text.usetex": False}):  # a user's own setting would send every text through LaTeX
        figure = make()
        if figure is None:
            return []
        figure.savefig(path, dpi=96)  # as wide as MLflow's page of a run and the certificate's
    return [path]
