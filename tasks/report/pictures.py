"""All pictures of a release as PNG files, in the order a page shows them."""

from pathlib import Path

from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.release import Release
from tasks.report.panels import draw_budget, draw_noise, draw_posterior
from tasks.report.plot import draw


def save_pictures(release: Release, account: Account, folder: Path) -> list[Path]:
    """trajectory.png or release.png, then posterior.png, noise.png and budget.png where there is one to draw."""
    figures = {
        "trajectory" if "trajectory" in release.value else "release": draw(release),
        "posterior": draw_posterior(release),
        "noise": draw_noise(release),
        "budget": draw_budget(account),
    }
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for name, figure in figures.items():
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=130)
            saved.append(folder / f"{name}.png")
    return saved
