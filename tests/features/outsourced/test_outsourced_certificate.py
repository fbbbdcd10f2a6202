"""The certificate of a published table, and a table whose name no file can have."""

import math

import pandas as pd
import pyarrow.parquet as pq
import pytest
from exchanges import world
from test_once_sensitive import write  # noqa: F401  a fixture
from test_standings import tight_rho

from dpbo.features.outsourced.box import REPLACE, Outsourced
from dpbo.features.outsourced.curator import Publication, publish
from dpbo_core.errors import CertificateFalse, DpboError
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.methods.certified import CERTIFIED
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.study.query import QueryContext


@pytest.mark.parametrize("transform", ["gaussian", "published"])
def test_the_certificate_of_a_table_is_worth_its_promise_and_an_edit_is_caught(transform, tmp_path):
    honest = world(tmp_path, public=transform == "published").publish(
        Outsourced(
            3.0, 1e-6, transform=transform, norm_bound=4.0, relation=REPLACE if transform == "gaussian" else None
        )
    ).release.to_json()  # fmt: skip
    if transform == "published":
        with pytest.raises(CertificateFalse, match="guarantees nothing"):
            recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
        return
    found = recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
    assert found.epsilon == pytest.approx(3.0, rel=1e-6)
    assert found.by_price == ()
    honest["spends"][0]["noise_scale"] *= 0.99
    with pytest.raises(CertificateFalse):
        recompute(read_certificate(honest, CERTIFIED), CERTIFIED)


def test_a_name_too_long_for_a_file_is_a_letter(tmp_path):
    made = world(tmp_path)
    publication = Publication(Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0), "people", "1")
    with pytest.raises(DpboError):
        publish(
            publication,
            tmp_path / ("x" * 400),
            tmp_path / "Z.parquet",
            QueryContext(made.ledger),
            vaults=made.vaults,
        )


def test_the_tables_standings_are_those_of_what_is_published():
    """A row's image moves by at most 2B, and by 1 under the paper's relation; the paper's transform is refuted."""
    sound = Outsourced(1.0, 1e-5, relation=REPLACE, norm_bound=3.0).plan(100, 2)
    ((spend,), rho) = (sound.spends, tight_rho(1.0, 1e-5))
    assert sound.guarantee.evidence.standing == "standard"
    assert spend.sensitivity == pytest.approx(6.0, rel=1e-5)
    assert spend.sensitivity >= 6.0
    assert spend.noise_scale == pytest.approx(spend.sensitivity / math.sqrt(2 * rho), rel=1e-6)
    near = Outsourced(1.0, 1e-5, relation=NeighboringRelation.ROW_MOVES_BY_ONE).plan(100, 2).spends[0]
    assert near.sensitivity == pytest.approx(1.0, rel=1e-5)
    printed = Outsourced(1.0, 1e-5, transform="published").plan(100, 2).guarantee
    assert (printed.evidence.standing, printed.epsilon) == ("refuted", math.inf)


def test_a_published_table_says_it_too(dpbo, here, write):  # noqa: F811
    """What the curator hands out names the assumption in the file itself."""
    write()
    pd.read_csv(here / "v.csv").to_csv(here / "rows.csv", index=False)
    assert dpbo("budget", "set", "clinic", "--epsilon", "5", "--delta", "1e-5")[0] == 0
    assert dpbo("budget", "publish", "clinic", "v.csv")[0] == 0
    asked = (
        "rows.csv --out z.parquet --dataset clinic --epsilon 1 --delta 1e-6 --relation replace_one --norm-bound 9"
    )
    code, _, err = dpbo("curate", "publish", *asked.split())
    assert code == 0, err
    metadata = b" ".join(pq.read_schema(here / "z.parquet").metadata.values())
    assert b'"assumptions": ["published_records"]' in metadata.replace(b'":[', b'": [')
