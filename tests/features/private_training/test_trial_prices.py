"""What a hidden number of private trials costs, by hand."""

import math

from test_dp_hypo import sensitive_problem, study

from dpbo.features.private_training.dp_hypo import DpHypo


def test_a_poisson_number_of_trials_pays_for_the_outcome_of_none(tmp_path):
    """The corrected formula by hand: log(e^−μ + e^{(α−1)B})/(α−1); as printed it would leave out e^−μ."""
    world = sensitive_problem(study(tmp_path))
    method = DpHypo(base="noisy_gradient_descent", stopping="poisson")
    assert method.plan(world).guarantee.evidence.standing == "corrected"
    ((_, mechanism),) = method.draws(world)
    mu, curve, found = world.search.steps, mechanism.trial, []
    for alpha in curve.orders:
        hat = math.log(alpha / (alpha - 1))
        B = curve.at(alpha) + mu * curve.delta(hat) + math.log(mu) / (alpha - 1)
        if (alpha - 1) * B < 700:
            renyi = math.log(math.exp(-mu) + math.exp((alpha - 1) * B)) / (alpha - 1)
            found.append(renyi + math.log1p(-1 / alpha) - math.log(world.delta * alpha) / (alpha - 1))
    price = mechanism.price()
    assert min(found) <= price * (1 + 1e-9)
    assert min(abs(value / price - 1) for value in found) < 1e-9  # it is the formula at an order: not all are asked
