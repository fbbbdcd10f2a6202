"""Simulated tables of patients for the pages of the documentation; no record is about a person."""

import numpy as np
import pandas as pd


def readmissions(seed, n):
    """Patients with sex, age and blood pressure; one in five is readmitted."""
    rng = np.random.default_rng(seed)
    age, pressure = rng.normal(60.0, 12.0, n), rng.normal(130.0, 15.0, n)
    risk = -2.1 + 0.09 * (age - 60.0) + 0.05 * (pressure - 130.0)
    readmitted = (rng.random(n) < 1.0 / (1.0 + np.exp(-risk))).astype(int)
    return pd.DataFrame(
        {"sex": rng.choice(["f", "m"], n), "age": age, "pressure": pressure, "readmitted": readmitted}
    )


def admissions(seed, n, turned=0.0):
    """Patients with age and blood pressure; of a share `turned` the label is flipped, as after a change."""
    rng = np.random.default_rng(seed)
    age, pressure = rng.normal(60.0, 12.0, n), rng.normal(130.0, 15.0, n)
    risk = 0.2 * (age - 60.0) + 0.1 * (pressure - 130.0)
    admitted = rng.random(n) < 1.0 / (1.0 + np.exp(-risk))
    admitted ^= rng.random(n) < turned
    return pd.DataFrame({"age": age, "pressure": pressure, "admitted": admitted.astype(int)})


def visits(seed, n):
    """Patients with gaps, a ward, a note, a date and a truth value; some are readmitted."""
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(20, 90, n).astype(float), rng.choice(["north", "south"], n)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "ward": ward,
            "note": [" ".join(rng.choice(["pain", "cough", "sleeps", "walks"], 4)) for _ in range(n)],
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "smoker": rng.random(n) < 0.3,
            "readmitted": (age / 90 + (ward == "south") * 0.4 + rng.normal(0, 0.2, n) > 0.75).astype(int),
        }
    )
