"""Delete one feature in a copy of the tree, and check and test what is left: `make without FEATURE=watch`.

python tests/without.py FEATURE [PYTEST OPTION …]

The copy holds the tracked files. The feature's folders, its pages, the benchmarks and examples that import it and
its lines of pyproject.toml are deleted; a page, or a part of one, says in a comment whose it is. The rest is
installed into a virtual environment of its own, which takes the dependencies from the one that runs this script.
One line a part is printed; the first that fails ends it.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEATURES = tuple(sorted(path.parent.name for path in (ROOT / "features").glob("*/__init__.py")))
TESTS = ("-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "-n", "1")


def copy_of_tree(folder):
    """The tracked files as they stand, links kept."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def without_entries(text, feature):
    """The text of pyproject.toml without the feature's entry points, contract lines and folder of tests."""
    module = rf"dpbo\.features\.{feature}\b"
    text = re.sub(rf'^ *(?:[\w-]+ = )?"[^"\n]*{module}[^"\n]*",?(?: *#[^\n]*)?\n', "", text, flags=re.MULTILINE)
    text = re.sub(rf'"tests/features/(?:\w+_and_)?{feature}(?:_and_\w+)?", ', "", text)
    head, *contracts = text.split("[[tool.importlinter.contracts]]\n")
    kept = [one for one in contracts if not {"source_modules", "modules"} & _emptied(one)]
    return "[[tool.importlinter.contracts]]\n".join([head, *kept])


def _emptied(contract):
    """The lists of a contract that hold nothing."""
    return {key for key, value in tomllib.loads(contract).items() if value == []}


def own_files(folder, feature):
    """What belongs to the feature alone: its folders, and the scripts that import it."""
    names = re.findall(
        rf'^(\w+) = "dpbo\.features\.{feature}\b', (folder / "pyproject.toml").read_text(), re.MULTILINE
    )
    imports = [
        rf"^ *(?:from|import) dpbo\.features\.{feature}\b",
        rf"^ *from dpbo import .*\b({'|'.join(names)})\b",
    ]
    yield folder / "features" / feature
    yield from (path for path in (folder / "tests" / "features").iterdir() if feature in path.name.split("_and_"))
    scripts = {*(folder / "benchmarks").rglob("*.py"), *(folder / "examples").rglob("*.py")}
    while gone := {path for path in scripts if re.search("|".join(imports), path.read_text(), re.MULTILINE)}:
        yield from gone
        scripts -= gone
        for path in gone:  # what imports them goes too
            package, name = ".".join(path.relative_to(folder).parent.parts), path.stem
            imports += [rf"^ *from {package}\.{name}\b", rf"^ *from {package} import .*\b{name}\b"]


def delete(folder, feature):
    """Delete the feature's own files and lines."""
    for path in [*own_files(folder, feature)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project, names = folder / "pyproject.toml", folder / "dpbo" / "__init__.py"
    project.write_text(without_entries(project.read_text(), feature))
    names.write_text(
        re.sub(rf"^    from dpbo\.features\.{feature}\b.*\n", "", names.read_text(), flags=re.MULTILINE)
    )
    delete_pages(folder, feature)


def delete_pages(folder, feature):
    """Delete the pages and the parts of pages that say that they are the feature's, and every link to them."""
    marked = rf"<!-- feature: (?:\w+ and )?{feature}(?: and \w+)? -->\n"
    docs, site = folder / "docs", folder / "mkdocs.yml"
    pages = {path: path.read_text() for path in (*docs.rglob("*.md"), *folder.glob("*.md"))}
    gone = {path for path, text in pages.items() if re.match(marked, text)}
    kept = {path: re.sub(rf"{marked}.*?<!-- end of feature -->\n+", "", text, flags=re.DOTALL)
            for path, text in pages.items() if path not in gone}  # fmt: skip
    link = r"\[([^][]*)\]\(([^)#\s]+)[^)\s]*\)"
    for path, text in kept.items():

        def plain(found, page=path):
            return found[1] if (page.parent / found[2]).resolve() in gone else found[0]

        def claimed(found, page=path):  # a row that says yes, see there
            return "" if (page.parent / found[2]).resolve() in gone else found[0]

        path.write_text(re.sub(link, plain, re.sub(rf"^.*\| yes: {link}.*\n", claimed, text, flags=re.MULTILINE)))
    for path in gone:
        site.write_text(re.sub(rf"^.* {path.relative_to(docs)}\n", "", site.read_text(), flags=re.MULTILINE))
        path.unlink()
    pages_left = "".join(path.read_text() for path in docs.rglob("*.md"))
    for part in (docs / "adding").glob("*.py"):
        if part.name not in pages_left:  # no page includes it any more
            part.unlink()
    scripts = [path for part in ("benchmarks", "tasks", "examples") for path in (folder / part).rglob("*.py")]
    left = "".join(path.read_text() for path in (*scripts, *(folder / "tests" / "audit").glob("*.py")))
    for picture in docs.rglob("*.png"):
        if picture.stem not in left:  # nothing draws it any more
            picture.unlink()


def environment(folder):
    """A virtual environment with the copy installed; what the copy needs is this environment's."""
    home = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    purelib = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    Path(purelib.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for command in Path(sys.executable).parent.iterdir():  # pytest, mypy and the rest, under the new interpreter
        text = command.read_bytes() if command.is_file() and not command.is_symlink() else b""
        first, _, rest = text.partition(b"\n")
        if first == f"#!{sys.executable}".encode() and command.name != "dpbo":
            (home / "bin" / command.name).write_bytes(f"#!{python}\n".encode() + rest)
            (home / "bin" / command.name).chmod(0o755)
    if not (home / "bin" / "ruff").exists():
        (home / "bin" / "ruff").symlink_to(Path(sys.executable).parent / "ruff")
    return python


def main(feature, *options):
    """Delete, install, check and test; the exit code is that of the first part that fails."""
    if feature not in FEATURES:
        sys.stderr.write(f"There is no feature {feature!r}; there are {', '.join(FEATURES)}.\n")
        return 2
    with tempfile.TemporaryDirectory(prefix=f"without-{feature}-") as place:
        folder = Path(place).resolve()
        copy_of_tree(folder)
        delete(folder, feature)
        for command in (("init", "-q"), ("add", "-A")):  # tests ask git which files are the project's
            subprocess.run(["git", *command], cwd=folder, check=True)
        python = environment(folder)
        if (ROOT / ".mypy_cache").is_dir():  # what was checked already is not checked again
            shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
        scripts = python.parent
        parts = {
            "install": (python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", "."),
            "pages": (python, "tests/write_pages.py"),
            "format": (scripts / "ruff", "format", "--check", "."),
            "lint": (scripts / "ruff", "check", "."),
            "types": (scripts / "mypy",),
            "import rules": (scripts / "lint-imports", "--no-cache"),
            "tests": (python, *TESTS, *options),
        }
        return next((code for name, part in parts.items() if (code := _ran(name, part, folder))), 0)


def _ran(name, part, folder):
    """The exit code of a part, whose output is printed if it is not 0."""
    begun = time.monotonic()
    inside = os.environ | {"VIRTUAL_ENV": str(folder / ".venv"), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([*map(str, part)], cwd=folder, env=inside, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    print(f"{name:14} {'failed' if done.returncode else 'passed'} in {time.monotonic() - begun:.0f} s", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
