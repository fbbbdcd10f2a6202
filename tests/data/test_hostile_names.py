"""A name is text: no mathtext in a picture, no markup on a page, in a note or on the terminal."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text
from worlds import at_length

from dpbo.flows.cli.release_screen import document_of, print_document
from dpbo.flows.terminal import Screen, named, spoken
from dpbo.tasks.reporting.document import Document, Fact, Table, in_markdown, in_picture, markdown, summary
from dpbo.tasks.reporting.mlflow_run import metrics, params
from dpbo.tasks.reporting.pictures import draw, draw_budget, draw_noise, draw_posterior, save_pictures
from dpbo.tasks.reporting.release_files import page
from dpbo_core.errors import printable
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

NAMES = [
    "claims_$10k_$50k", "$", "$$", "$x$", r"$\frac{$", r"\$", r"a\$b$", "$a$$", "$^$", "_^_", "\\", "\\\\",
    "\\\\\\", r"\alpha", "a_{", "${x}", "%s", "[red]x[/]", "[/]", "[bold", "x\\",
    "[link=https://a.b]c[/link]", "x[/]\\",
    "<script>alert(1)</script>", "&lt;", "&#60;", '"><img src=x>', "a'b", "**b**", "_i_", "`c`", "# h", "- l",
    "1. n", "[a](https://b.c)", "![a](b)", "<https://a.b>", "| a | b |", "~~s~~", "&amp;", "***", "===", "    x",
    "\x1b[31mred", "a\nb", "a\x00b", "\u202eabc", "é ε 漢字", "\ud800", ":smile:", "a:b@c", "https://a.b",
]  # fmt: skip
PIECES = st.sampled_from(
    [*"$\\_^{}[]()<>&#*`~|!-+.:/=\"'% ab", r"\frac", "[/]", "[red]", "\\$", "$$", "&lt;", "\n"]
)
TEXTS = st.one_of(st.sampled_from(NAMES), st.lists(PIECES, max_size=12).map("".join), st.text(max_size=20))
MANY = settings(
    max_examples=at_length(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(TEXTS)
@MANY
def test_a_picture_shows_the_name_itself(text):
    """By matplotlib's own reading of it: never mathtext, and what is drawn is the name."""
    from matplotlib.text import Text as Words

    words = Words(0.0, 0.0, in_picture(text))
    drawn, mathtext = words._preprocess_math(words.get_text())
    assert not mathtext
    assert drawn == printable(text)


def rendered(html):
    """The text of a page, and its tags."""

    class Reader(HTMLParser):
        text, tags = "", ()

        def handle_data(self, data):
            self.text += data

        def handle_starttag(self, tag, attrs):
            self.tags += (tag,)

    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader.text, reader.tags


@given(TEXTS)
@MANY
def test_a_note_shows_the_name_itself(text):
    """By a renderer of Markdown, with its tables, strikethrough, HTML and links."""
    renderer = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    shown, tags = rendered(renderer.render("name: " + in_markdown(text) + " end"))
    assert tags == ("p",)
    assert shown.rstrip("\n") == f"name: {printable(text)} end"


@given(TEXTS)
@MANY
def test_a_summary_shows_the_name_itself(text):
    renderer = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    document = Document(
        subtitle="edition 1", answers=(Fact("study", f"{text} {'long ' * 30}"),), next_step="x" + text
    )
    shown, tags = rendered(renderer.render(summary(document)))
    assert set(tags) == {"table", "thead", "tbody", "tr", "th", "td", "br"}
    said = f"edition 1 study {printable(text)} {'long ' * 30} next x{printable(text)}"
    assert "".join(shown.split()) == "".join(said.split())


def test_a_table_in_markdown_is_one_and_its_cells_are_text():
    table = Table(("name", "a|b"), (("**x**", "<i>"), ("`c`", "1 | 2")), title="# t")
    renderer = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    shown, tags = rendered(renderer.render(markdown(Document(tables=(table,)))))
    assert shown.split() == ["#", "t", "name", "a|b", "**x**", "<i>", "`c`", "1", "|", "2"]
    assert set(tags) == {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


@given(TEXTS)
@MANY
def test_a_screen_shows_the_name_itself(text):
    """Beside every kind of tag, at the beginning, in the middle and at the end."""
    for before, after in (("", ""), ("[bold]", "[/]"), ("x ", "[/] y"), ("", "[red]z[/]")):
        opened = "[dim]" if after.startswith("[/]") and not before.startswith("[") else ""
        markup = f"{opened}{before}{named(text)}{after}"
        bare = re.sub(r"\[/?(bold|red|dim)?\]", "", before) + printable(text) + re.sub(r"\[/?(red)?\]", "", after)
        assert Text.from_markup(markup, emoji=False).plain == bare
        page = Console(file=io.StringIO(), width=10_000, highlight=False, emoji=False)
        with page.capture() as shown:
            page.print(markup, soft_wrap=True)
        assert shown.get() == bare + "\n"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A release with every part, and its account."""
    import copy

    from conftest import STUDY

    ledger = PrivacyLedger(f"sqlite:///{tmp_path_factory.mktemp('names') / 'ledger.db'}")
    release = run_study(StudySpec.from_dict(copy.deepcopy(STUDY)), ledger=ledger).release
    return release, ledger.accounts("people")[0]


def renamed(released, text):
    release, account = released

    def axis(item):
        return {text if name == "lambda" else name: value for name, value in item.items()}

    value = dict(release.value) | {"hyperparameters": axis(release.value["hyperparameters"])}
    value["trajectory"] = [
        point | {"hyperparameters": axis(point["hyperparameters"])} for point in release.value["trajectory"]
    ]
    spends = tuple(replace(spend, mechanism=f"{spend.mechanism} {text}") for spend in release.spends)
    facts = dict(release.facts)
    if "space" in facts:
        facts["space"] = axis(facts["space"])
    made = replace(
        release, study=text, edition=text, dataset=text, method=text, value=value, spends=spends, facts=facts
    )
    return made, replace(account, budget=replace(account.budget, dataset=text))


def words_of(figure):
    from matplotlib.text import Text as Words

    figure.canvas.draw()
    return [words for words in figure.findobj(Words) if words.get_visible() and words.get_text()]


@pytest.mark.slow
@pytest.mark.parametrize("text", NAMES)
def test_every_picture_of_a_release_is_drawn(released, text, tmp_path, real_pixels):
    release, account = renamed(released, text)
    saved, failed = save_pictures(release, account, tmp_path)
    assert failed == ()
    assert len(saved) == 4
    shown = []
    for figure in (draw(release), draw_posterior(release), draw_noise(release), draw_budget(account)):
        for words in words_of(figure):
            drawn, mathtext = words._preprocess_math(words.get_text())
            assert not mathtext or drawn.startswith(r"$\mathdefault"), drawn  # an axis's own numbers
            shown.append(drawn)
    assert sum(printable(text) in drawn for drawn in shown) >= 4


@pytest.mark.parametrize("text", NAMES)
def test_the_certificate_shows_the_name_itself(released, text):
    release, _ = renamed(released, text)
    if "\ud800" in text:
        release = replace(release, study="x", edition="x", dataset="x", method="x")
    html = page(release, [])
    plain, _ = rendered(page(released[0], []))
    shown, tags = rendered(html)
    assert tags == rendered(page(released[0], []))[1]  # no tag more than with the names it had
    assert plain
    assert release.study.replace("\x00", "\ufffd") in shown.replace("\x00", "\ufffd")


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("plain", ["", "1"])
def test_the_screen_of_a_release_shows_the_name_itself(released, text, plain, monkeypatch, capsys):
    monkeypatch.setenv("DPBO_PLAIN", plain)
    monkeypatch.setenv("FORCE_COLOR", "")
    release, account = renamed(released, text)
    print_document(document_of(StudyResult(release, replayed=True), account, look="here"))
    shown = capsys.readouterr().out
    wanted = spoken(named(text)) if plain else printable(text)
    assert "".join(wanted.split()) in "".join(shown.split())
    assert "\x1b" not in shown


@pytest.mark.parametrize("text", NAMES)
def test_mlflow_takes_every_name(released, text):
    from mlflow.utils.validation import _validate_metric_name, _validate_param

    release, account = renamed(released, text)
    for metric in metrics(release, account):
        _validate_metric_name(metric.key)
    for param in params(release):
        _validate_param(param.key, param.value)


def test_a_screen_is_what_was_tested(capsys):
    Screen().say(f"[bold]{named('a' + chr(92))}[/]")
    assert capsys.readouterr().out == "a\\\n"
