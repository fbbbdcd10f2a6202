"""The released number, read off MLflow's page and off the certificate by a real browser."""

import re

import pytest
from audit import look

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(look.chromium() is None, reason="needs Chromium (Debian: apt-get install chromium)"),
]


def test_a_viewer_reads_the_released_number(tmp_path):
    with look.shown(tmp_path, "1") as world:
        run = f"{world.mlflow}#/experiments/{world.experiment}/runs/{world.run_id}"
        page = look.browse(f"{run}?workflowType=machine_learning", "--dump-dom", budget=60_000)
        (certificate,) = tmp_path.glob(f"mlruns/artifacts/*/{world.run_id}/artifacts/release.html")
        paper = look.browse(certificate.as_uri(), "--dump-dom")
    score = world.release["value"]["score"]
    digits = re.findall(r"\d+\.\d{3,}", re.sub(r"<[^>]+>", " ", page))
    assert any(abs(float(number) - score) <= 0.5 * 10 ** -len(number.partition(".")[2]) for number in digits)
    metric = world.release["value"]["metric"]["name"]
    assert f">{metric}<" in page
    assert f'data-value="{metric}">{min(max(score, 0.0), 1.0):.4f}<' in paper
