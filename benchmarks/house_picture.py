"""Draw the rooms of the house on the floors of the import contract, with the imports between them.

    python -m benchmarks.house_picture [--before COMMIT]      writes docs/pictures/house.png

A room is a folder that is a layer of a contract in pyproject.toml (or a feature); its floor is that of the layer.
`dpbo_core/errors.py` is a file, which all rooms import, and no room. A line is an import of one room by another, as
wide as there are modules that import. With --before the house of that commit stands beside.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
GRAPH = """
import grimp, sys
graph = grimp.build_graph("dpbo_core", "dpbo", cache_dir=None)
for module in graph.modules:
    for other in graph.find_modules_directly_imported_by(module):
        print(module, other)
"""


def floors_of(root):
    """The rooms of a checkout floor by floor, top first, by its import contract."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {c["containers"][0]: c["layers"] for c in contracts if c["type"] == "layers" and "containers" in c}
    features = sorted(f"dpbo.features.{p.parent.name}" for p in (root / "features").glob("*/__init__.py"))
    shell = [name for name in ("cli", "viewer") if (root / "flows" / name).is_dir()]
    floors = [features] if features else []
    floors += [[f"dpbo.flows.{name}" for name in shell], ["dpbo.flows"]]
    floors += [["dpbo.flows.prefect_runtime"], ["dpbo.tasks"], ["dpbo.tasks.reporting"]]
    for layer in layers["dpbo_core"]:
        names = [name.strip() for name in layer.split("|")]
        floors.append([f"dpbo_core.{name}" for name in names if (root / "dpbo_core" / name).is_dir()])
    return [floor for floor in floors if floor]


def arrows_of(root, floors):
    """(room, room) → how many modules of the first import the second."""
    rooms = sorted((room for floor in floors for room in floor), key=len, reverse=True)
    ran = subprocess.run([sys.executable, "-c", GRAPH], cwd=root, capture_output=True, text=True, check=True)

    def room_of(module):
        return next((room for room in rooms if module == room or module.startswith(f"{room}.")), None)

    found = {
        (room_of(one), room_of(other), one) for one, other in (line.split() for line in ran.stdout.splitlines())
    }
    return Counter((a, b) for a, b, _ in found if a and b and a != b)


def draw(axes, title, floors, arrows):
    """Draw one house: a box a room, a line an arrow."""
    places = {}
    for height, floor in enumerate(reversed(floors)):
        for column, room in enumerate(floor):
            places[room] = ((column + 0.5) / len(floor), height)
    for (one, other), count in arrows.items():
        (x, y), (u, v) = places[one], places[other]
        colour = "#b03030" if v > y else "#31688e"
        axes.plot([x, u], [y, v], color=colour, lw=0.4 + min(count, 12) / 5, alpha=0.28, zorder=1)
    for room, (x, y) in places.items():
        short = room.removeprefix("dpbo_core.").removeprefix("dpbo.")
        axes.text(
            x, y, short, ha="center", va="center", fontsize=8, zorder=2,
            bbox={"boxstyle": "round,pad=0.35", "fc": "white", "ec": "#444444", "lw": 0.8},
        )  # fmt: skip
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.7, len(floors) - 0.3))
    axes.set_title(f"{title}: {len(places)} rooms, {len(floors)} floors, {len(arrows)} arrows", fontsize=10)
    axes.axis("off")


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--before", help="a commit whose house is drawn beside today's")
    before = words.parse_args().before
    houses = []
    if before:
        with tempfile.TemporaryDirectory() as place:
            tree = Path(place) / "tree"
            subprocess.run(["git", "worktree", "add", "-q", "--detach", tree, before], cwd=ROOT, check=True)
            try:
                floors = floors_of(tree)
                houses.append(("Before", floors, arrows_of(tree, floors)))
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    floors = floors_of(ROOT)
    houses.append(("Today", floors, arrows_of(ROOT, floors)))
    figure, axes = plt.subplots(1, len(houses), figsize=(8 * len(houses), 9), squeeze=False)
    for place, house in zip(axes[0], houses, strict=True):
        draw(place, *house)
        print(*(f"{house[0]}: {len(house[2])} arrows between {sum(map(len, house[1]))} rooms",))
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "pictures" / "house.png", dpi=110)


if __name__ == "__main__":
    main()
