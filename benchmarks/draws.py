"""One draw of noise beside OpenDP's own, and twenty at once: processor time, mechanisms made beforehand.

    python -m benchmarks.draws [--json]

Ours checks the price against the plan, draws, and adds the noise to a sealed integer. OpenDP's is a call of its
measurement, on one integer, or on a vector of one as ours makes it; with its price, as a caller that checks asks
for it, both are one row.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import in_turn, ratio
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.mechanisms.opendp_library import opendp
from dpbo_core.privacy.sensitive import Sensitive

REPETITIONS = 15
VALUE, SENSITIVITY = 12_345, 2**24


def rows() -> Iterator[Row]:
    library, source, value = opendp(), OperatingSystemNoise(), Sensitive(VALUE)
    whole = library.domains.atom_domain(T="i64")
    distance = library.metrics.absolute_distance(T="i64")
    makers = library.measurements
    for name, ours, make, norm in (
        ("Laplace", DiscreteLaplace(SENSITIVITY, 10**11, 1.0), makers.make_laplace, library.metrics.l1_distance),
        ("Gaussian", DiscreteGaussian(SENSITIVITY, 10**9, 1.0), makers.make_gaussian, library.metrics.l2_distance),
    ):
        single = make(whole, distance, scale=ours.scale)
        vector = make(library.domains.vector_domain(whole), norm(T="i64"), scale=ours.scale)
        spend, zero = ours.spend("score"), np.zeros(1, dtype=np.int64)

        def drawn(ours=ours, spend=spend):
            return ours.prepare(spend, source)(value)

        def priced(single=single):
            return single.map(SENSITIVITY), single(VALUE)

        def twenty(ours=ours, spend=spend):
            return [one(value) for one in ours.prepare_each([spend] * 20, source)]

        def of_a_vector(vector=vector, zero=zero):
            return vector(zero)

        def alone(single=single):
            return single(VALUE)

        taken = in_turn([drawn, of_a_vector, alone, priced, twenty], REPETITIONS)
        on = f"discrete {name}"
        note = f"ours {1e6 * float(np.median(taken[0])):.0f} µs"
        yield spread_row(
            f"{on}: of OpenDP's draw of one integer", ratio(taken[0], taken[2]), at_most=1.3, note=note
        )
        yield spread_row(f"{on}: of OpenDP's draw of a vector of one", ratio(taken[0], taken[1]))
        yield spread_row(f"{on}: of OpenDP's price and draw", ratio(taken[0], taken[3]))
        yield spread_row(
            f"{on}: twenty at once, of twenty of OpenDP's", ratio([t / 20 for t in taken[4]], taken[2])
        )


if __name__ == "__main__":
    main(rows)
