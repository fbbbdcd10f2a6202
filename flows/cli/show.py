"""`dpbo show`: a recorded release from the ledger alone, or the sum of several sites' reports."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer

from dpbo.flows.cli.app import Explain
from dpbo.flows.cli.release_screen import document_of, print_document, print_notes, release_json
from dpbo.flows.cli.running import feature_study, ledger_here, writing
from dpbo.flows.terminal import print_json, print_result
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.lookup import Recorded
from dpbo_core.ledger.sources import fields_of
from dpbo_core.privacy.atomically import replace_atomically
from dpbo_core.privacy.certified import rounds_of
from dpbo_core.privacy.release import Release, StudyResult
from dpbo_core.report import KIND

N_MATCHES_SHOWN = 10  # of several matches in one line; the newest


def show(
    study: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY...",
            help="A study file, NAME, NAME:EDITION, or a release's id; or a release.json from each of several "
            "sites, to sum their reports on one model.",
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the certificate to this HTML file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write release.json here and its receipt beside it.")
    ] = None,
    form: Annotated[
        Literal["registry"] | None,
        typer.Option("--format", help="registry: a draft entry for the registry of DP deployments."),
    ] = None,
    explain: Explain = False,
) -> None:
    """Print a recorded release from the ledger. Opens no data and spends no budget."""
    if len(study) > 1:
        if html or out or form or explain:
            raise StudyInvalid(
                "several releases are summed on the screen alone", remedy="name one, or leave that out"
            )
        from dpbo.flows.cli.verify import ledger_remark, release_of
        from dpbo.tasks.reporting.report_document import pooled_document
        from dpbo_core.report.pooled import pool

        reports = [release_of(Path(file)) for file in study]
        for report in reports:
            ledger_remark(report)
        pooled = pool(reports)
        print_result(lambda: pooled, lambda: print_document(pooled_document(pooled)))
        return
    release, account = recorded_release(study[0])
    if html is not None:
        save_page(release, account, html)
    if out is not None:
        from dpbo.tasks.reporting.release_files import write_release

        with writing(f"the file {str(out)!r}"):
            write_release(release, out)
    if form == "registry":
        from dpbo.tasks.reporting.release_files import registry_entry

        print_json(registry_entry(release))
        return
    result = StudyResult(release, replayed=True)

    def screen() -> None:
        view = "dpbo ui   (if MLflow shows it)" if html is None else f"the page {str(html)!r}"
        document = document_of(result, account, look=view)
        print_document(document)
        if explain:
            print_notes(document, study[0] if study[0].endswith(".toml") else "")

    print_result(lambda: release_json(result, tracking=None), screen)


def recorded_release(word: str) -> tuple[Release, Account]:
    """Return the release that `word` names, the newest of several, and its dataset's account; refused if none."""
    ledger = ledger_here()
    if ledger is None:
        raise StudyInvalid(
            f"there is no ledger here, so {word!r} is not tuned yet",
            cause="another folder's ledger was meant, or nothing has run here",
            remedy="change to the folder that holds mlruns, set DPBO_LEDGER_URL, or run dpbo tune",
        )
    matches = _matches(ledger, word)
    finished = [(item, item.release) for item in matches if item.release is not None]
    if len({(item.study, item.dataset) for item, _ in finished}) > 1:
        raise StudyInvalid(
            f"{len(finished)} releases match {word!r}: {_listed([item for item, _ in finished])}",
            cause="two datasets have studies of one name",
            remedy=f"name one by its id: dpbo show {finished[-1][0].release_id}",
        )
    if not matches:
        raise StudyInvalid(
            f"the ledger has no release of {word!r}{suggestion(word, ledger.study_names())}",
            cause="a misspelt name, another folder's ledger, or a study that is not tuned yet",
            remedy="run dpbo budget to see what was released, or dpbo tune with the study",
        )
    if not finished:
        raise _unfinished(ledger, word, matches[-1])
    item, release = finished[-1]
    (account,) = ledger.accounts(item.dataset)
    return release, account


def save_page(release: Release, account: Account, file: Path) -> None:
    """Write a release's certificate as one HTML page, with every picture that can be drawn."""
    from dpbo.tasks.reporting.pictures import save_pictures
    from dpbo.tasks.reporting.release_files import page

    with TemporaryDirectory() as scratch:
        pictures, _ = save_pictures(release, account, Path(scratch))
        text = page(release, pictures, account)
    with writing(f"the file {str(file)!r}"):
        replace_atomically(file, text.encode())


def _matches(ledger: PrivacyLedger, word: str) -> tuple[Recorded, ...]:
    if not (Path(word).is_file() or word.endswith(".toml")):
        return ledger.recorded(word)
    from dpbo_core.study.spec import read_study

    spec = feature_study(Path(word)) or read_study(Path(word))
    edition = None if fields_of(spec.edition) else spec.edition
    dataset = None if fields_of(spec.privacy.dataset) else spec.privacy.dataset
    editions = ledger.editions(spec.name, edition=edition, dataset=dataset)
    if editions:
        return editions
    others = ledger.editions(spec.name, dataset=dataset)  # of a schedule's runs, or before the file was edited
    raise StudyInvalid(
        f"study {spec.name!r}, edition {spec.edition!r}, is not tuned yet",
        cause=f"the ledger has other editions of it: {_listed(others)}" if others else "it has not run",
        remedy="run dpbo tune with it" + ("; or name another edition: dpbo show NAME:EDITION" if others else ""),
    )


def _unfinished(ledger: PrivacyLedger, word: str, entry: Recorded) -> StudyInvalid:
    own = (entry.study, entry.edition, entry.reserved_at)
    (account,) = ledger.accounts(entry.dataset)
    if any(one.taken_over and (one.study, one.edition, one.reserved_at) == own for one in account.entries):
        return StudyInvalid(
            f"{word!r} was charged on {entry.reserved_at[:10]}, and a corrected study took its budget over",
            cause="it opened nothing before the study file was changed and run again",
            remedy="run dpbo tune with the corrected study again: it continues, and nothing is paid twice",
        )
    query = rounds_of(entry.method)
    if query is not None:
        why, cause, remedy = query.unreleased
        return StudyInvalid(f"{word!r} goes on since {entry.reserved_at[:10]}: {why}", cause=cause, remedy=remedy)
    again = f"run dpbo {'evaluate' if entry.method == KIND else 'tune'} with it again"
    return StudyInvalid(
        f"{word!r} was charged on {entry.reserved_at[:10]} and is not finished, so there is no release yet",
        cause="its run was stopped, or is still at work",
        remedy=f"{again}: it continues, and nothing is paid twice",
    )


def _listed(matches: tuple[Recorded, ...] | list[Recorded]) -> str:
    last = matches[: -N_MATCHES_SHOWN - 1 : -1]
    newest = [f"{item.study}:{item.edition} ({item.method}, {item.release_id})" for item in last]
    more = len(matches) - len(newest)
    return ", ".join(newest) + (f", and {more} more in dpbo budget" if more else "")
