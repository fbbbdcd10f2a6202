"""The mechanisms: exact distributions, refusals, and the guarantee recomputed by enumeration."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from worlds import Memory as MemoryRecorder
from worlds import Watch

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.gaussian_rows import GaussianRows
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise, standing_of
from dpbo_core.mechanisms.noisy_max import NoisyMax
from dpbo_core.mechanisms.opendp_library import exponential_noisy_max, gumbel_noisy_max
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.sensitive import Sensitive

SYSTEM = OperatingSystemNoise()
ONE = spent_units(1.0)
FALSE_ALARM = 1e-6


def draws(mechanism, value, n):
    spend = mechanism.spend("x")
    return [mechanism.prepare(spend, SYSTEM)(Sensitive(value)) for _ in range(n)]


# (draws, what the noise would be divided by and noticed): missed once in 10⁶ runs at most
NOTICED = [(400, 2.0), pytest.param(2000, 1.5, marks=pytest.mark.slow)]


def chi_square(counts, probabilities, n):
    expected = np.array(probabilities) * n
    observed = np.array(counts, dtype=float)
    keep = expected >= 5
    observed = np.append(observed[keep], n - observed[keep].sum())
    expected = np.append(expected[keep], n - expected[keep].sum())
    if expected[-1] < 1e-9:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize(("n", "less"), NOTICED)
def test_laplace_has_its_distribution(n, less):
    mechanism = DiscreteLaplace(sensitivity=3, epsilon_units=ONE, unit=1.0)
    b = mechanism.scale
    found = Counter(draws(mechanism, 10, n))

    def p(b):
        mass = {z: math.tanh(1 / (2 * b)) * math.exp(-abs(z) / b) for z in range(-40, 41)}
        return chi_square([found[10 + z] for z in mass], list(mass.values()), n)

    assert p(b) > FALSE_ALARM > p(less * b)  # so much less noise would be noticed


@pytest.mark.parametrize(("n", "less"), NOTICED)
def test_gaussian_has_its_distribution(n, less):
    mechanism = DiscreteGaussian(sensitivity=2, rho_units=spent_units(0.5), unit=1.0)
    sigma = mechanism.scale
    found = Counter(draws(mechanism, -7, n))

    def p(sigma):
        weights = {z: math.exp(-(z**2) / (2 * sigma**2)) for z in range(-40, 41)}
        total = sum(weights.values())
        return chi_square([found[-7 + z] for z in weights], [w / total for w in weights.values()], n)

    assert p(sigma) > FALSE_ALARM > p(less * sigma)  # so much less noise would be noticed


@pytest.mark.parametrize("n", [250, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "mechanism",
    [DiscreteLaplace(1, ONE, 1.0), DiscreteGaussian(1, spent_units(0.5), 1.0)],
    ids=["laplace", "gaussian"],
)
def test_draws_made_together_are_as_draws_made_alone(mechanism, n):
    """In every place of a batch the distribution of one draw, and two neighbours independent: the joint table."""
    spends = [mechanism.spend(f"score {t}") for t in range(4)]
    rows = [[d(Sensitive(5)) - 5 for d in mechanism.prepare_each(spends, SYSTEM)] for _ in range(n)]
    b = mechanism.scale
    law = (lambda z: math.exp(-abs(z) / b)) if isinstance(mechanism, DiscreteLaplace) else (
        lambda z: math.exp(-(z**2) / (2 * b**2)))  # fmt: skip
    reach = range(-60, 61)
    mass = {z: law(z) / sum(map(law, reach)) for z in reach}
    for place in range(4):
        found = Counter(row[place] for row in rows)
        assert chi_square([found[z] for z in mass], list(mass.values()), n) > FALSE_ALARM
    pairs = Counter((row[place], row[place + 1]) for row in rows for place in (0, 2))
    both = {(x, y): mass[x] * mass[y] for x in range(-6, 7) for y in range(-6, 7)}
    assert chi_square([pairs[pair] for pair in both], list(both.values()), 2 * n) > FALSE_ALARM


def test_one_cheap_spend_in_a_batch_refuses_all_of_it():
    watch = Watch()
    for mechanism in (DiscreteLaplace(2, ONE, 1.0), DiscreteGaussian(2, ONE, 1.0)):
        honest = mechanism.spend("honest")
        cheap = replace(honest, what="cheap", rho_units=honest.rho_units - 1000)
        cheap = cheap if honest.epsilon_units is None else replace(cheap, epsilon_units=ONE - 1000)
        with pytest.raises(MechanismRefused, match="above the planned spend"):
            mechanism.prepare_each([honest, honest, cheap], watch)
    assert watch.drawn == []


def test_a_plan_is_drawn_together_where_one_mechanism_follows_itself():
    """Each name gets a draw of its own mechanism, and of no other's batch."""
    calls = []

    class Counting(OperatingSystemNoise):
        def draw_many(self, measurement, size, imitation):
            calls.append(size)
            return np.arange(size) + 100 * len(calls)

    first, second = DiscreteGaussian(2**24, ONE, 1.0), DiscreteGaussian(2**24, ONE + 1, 1.0)
    selection = PrivateSelection(1, ONE, 1.0, "permute-and-flip")
    plan = [(m.spend(f"score {t}"), m) for t, m in enumerate([first, first, second, selection, second, first])]
    noise = Noise(Counting(), MemoryRecorder())
    noise.prepare_draws(plan)
    assert calls == [2, 1, 1, 1]
    seen = [noise.release(s, m, Sensitive(0))["draw"] for s, m in plan if m is not selection]
    assert seen == [100, 101, 200, 300, 400]


def exponential_distribution(utilities, scale):
    weights = np.exp((np.array(utilities) - max(utilities)) / scale)
    return weights / weights.sum()


def permute_and_flip_distribution(utilities, scale):
    """Enumerated over every permutation: walk it, stop at each with probability exp((u − max)/s)."""
    n, top = len(utilities), max(utilities)
    chance = [math.exp((u - top) / scale) for u in utilities]
    mass = np.zeros(n)
    for order in itertools.permutations(range(n)):
        left = 1.0
        for i in order:
            mass[i] += left * chance[i]
            left *= 1.0 - chance[i]
    return mass / math.factorial(n)


DISTRIBUTIONS = {
    "permute-and-flip": permute_and_flip_distribution,
    "exponential mechanism": exponential_distribution,
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_selection_has_its_distribution(kind):
    mechanism = PrivateSelection(sensitivity=10, epsilon_units=2 * ONE, unit=1.0, kind=kind)
    utilities = [0, 3, 12, 25]
    n, given = 2000, Sensitive(np.array(utilities, dtype=np.int64))
    choose = mechanism.prepare(mechanism.spend("x"), SYSTEM)  # each choice is a draw of its own
    found = Counter(choose(given) for _ in range(n))
    p = chi_square([found[i] for i in range(4)], DISTRIBUTIONS[kind](utilities, mechanism.scale), n)
    assert p > FALSE_ALARM
    other = {"permute-and-flip": "exponential mechanism", "exponential mechanism": "permute-and-flip"}[kind]
    wrong = chi_square([found[i] for i in range(4)], DISTRIBUTIONS[other](utilities, mechanism.scale), n)
    assert wrong < 1e-3  # the test notices the other mechanism; it would miss it once in 10⁹ runs


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_selection_keeps_its_promise_exactly(kind):
    """Every pair of utility vectors that differ by at most Δ in each entry, either way: the exact loss is ≤ ε."""
    mechanism = PrivateSelection(sensitivity=2, epsilon_units=ONE, unit=1.0, kind=kind)
    spend = mechanism.spend("x")
    worst = worst_rho = 0.0
    for base in itertools.product((0, 1, 4), repeat=3):
        p = DISTRIBUTIONS[kind](base, mechanism.scale)
        for move in itertools.product((-2, 0, 2), repeat=3):
            q = DISTRIBUTIONS[kind](tuple(np.add(base, move)), mechanism.scale)
            worst = max(worst, float(np.abs(np.log(p / q)).max()))
            for alpha in (1.5, 2.0, 5.0, 20.0):
                renyi = math.log(float((p**alpha * q ** (1 - alpha)).sum())) / (alpha - 1)
                worst_rho = max(worst_rho, renyi / alpha)
    assert worst <= spend.epsilon * (1 + 1e-9)
    assert worst >= 0.8 * spend.epsilon  # the enumeration does reach near the guarantee
    assert worst_rho <= spend.rho * (1 + 1e-9)


def exact_lead_law(utilities, ratio):
    """Pr[index i, lead G] as a function, exactly, for geometric noise of this ratio: no cut.

    Σ_{x ≥ x₀} of Pr[v_i = x + G]·Pr[others' largest = x], the latter a product of distribution functions, which is
    a polynomial in ratio^x beyond the largest utility: the tail is a geometric series for every subset.
    """

    def below(j, i, x):  # Pr[v_j + [j < i] ≤ x]
        reach = x - utilities[j] - (j < i)
        return 1.0 - ratio ** (reach + 1) if reach >= 0 else 0.0

    def chance(i, lead):
        others = [j for j in range(len(utilities)) if j != i]
        start, total = utilities[i] - lead, 0.0
        for x in range(start, max(utilities) + 2):
            largest = math.prod(below(j, i, x) for j in others) - math.prod(below(j, i, x - 1) for j in others)
            total += (1.0 - ratio) * ratio ** (x - start) * largest
        first = max(start, max(utilities) + 2)
        for size in range(1, len(others) + 1):
            for subset in itertools.combinations(others, size):
                power = sum(1 - utilities[j] - (j < i) for j in subset)
                at_first = (-1) ** size * ratio ** (power + size * first) * (1.0 - ratio**-size)
                total += (1.0 - ratio) * ratio ** (first - start) * at_first / (1.0 - ratio ** (size + 1))
        return total

    return chance


def lead_law_without_ties(utilities, ratio):
    """The law of the wrong lead, v_i − max v_j, by enumeration of noises below 40."""
    noises = np.array(list(itertools.product(range(40), repeat=3)))
    noisy, chances = noises + np.array(utilities), (1.0 - ratio) ** 3 * ratio ** noises.sum(axis=1)
    winners, ranked = noisy.argmax(axis=1), np.sort(noisy, axis=1)
    leads = ranked[:, 2] - ranked[:, 1]
    return lambda i, lead: float(chances[(winners == i) & (leads == lead)].sum())


def worst_lead_loss(utilities, moves, ratio, law=exact_lead_law):
    """The largest loss of any (index, lead) between `utilities` and themselves plus each of `moves`."""
    here, worst = law(utilities, ratio), 0.0
    for move in moves:
        there = law(tuple(np.add(utilities, move).tolist()), ratio)
        for i, lead in itertools.product(range(len(utilities)), range(8)):
            p, q = here(i, lead), there(i, lead)
            if p > 0.0 or q > 0.0:
                worst = max(worst, abs(math.log(p / q)))
    return worst


def test_a_lead_is_free_and_wrong_ties_are_not():
    """By the exact law of (index, lead), for every move of up to 4 utilities by at most Δ, either way: loss ≤ ε."""
    for n, values, sensitivity in ((2, range(4), 2), (3, range(3), 1), (4, range(2), 1)):
        mechanism = NoisyMax(sensitivity, ONE, 1.0, n)
        ratio, moves = (
            math.exp(-1.0 / mechanism.scale),
            list(itertools.product((-sensitivity, sensitivity), repeat=n)),
        )
        worst = max(worst_lead_loss(base, moves, ratio) for base in itertools.product(values, repeat=n))
        assert 0.9 < worst <= 1.0 + 1e-9
    at_two = math.exp(-1.0)  # ε = 2
    assert worst_lead_loss((0, 0, 0), [(1, -1, -1)], at_two) <= 2.0 + 1e-9
    assert worst_lead_loss((0, 0, 0), [(1, -1, -1)], at_two, lead_law_without_ties) > 3.9


def test_the_noisy_maximum_has_its_law_and_draws_its_noise_beforehand():
    """The index and the lead jointly, beside the exact law; with the wrong ties the law would be noticed."""
    utilities, n = (1, 2, 2), 2000
    mechanism = NoisyMax(1, ONE, 1.0, 3)
    ratio, value = math.exp(-1.0 / mechanism.scale), Sensitive(np.array(utilities))
    found = Counter(mechanism.prepare(mechanism.spend("x"), SYSTEM)(value) for _ in range(n))
    outcomes = list(itertools.product(range(3), range(8)))
    for made, likely in ((exact_lead_law, True), (lead_law_without_ties, False)):
        law = made(utilities, ratio)
        p = chi_square([found[each] for each in outcomes], [law(*each) for each in outcomes], n)
        assert (p > 1e-9) == likely
    watch = Watch()
    assert mechanism.prepare(mechanism.spend("x"), watch)
    assert len(watch.drawn) >= 1  # before a utility is known
    alone = NoisyMax(1, ONE, 1.0, 1)
    assert alone.prepare(alone.spend("x"), SYSTEM)(Sensitive(np.array([7]))) == (0, None)


def test_what_a_lead_says_is_wrong_at_most_as_often_as_it_admits():
    """Of the exact law: Pr[the lead claims a margin that is not there] ≤ 5%, whatever the utilities."""
    mechanism = NoisyMax(1, 2 * ONE, 1.0, 3)
    ratio = math.exp(-1.0 / mechanism.scale)
    for utilities in ((0, 0, 0), (0, 1, 0), (2, 0, 1), (0, 4, 1), (7, 0, 0)):
        law, wrong = exact_lead_law(utilities, ratio), 0.0
        for i in range(3):
            margin = utilities[i] - max(u for j, u in enumerate(utilities) if j != i)
            claims = [(lead, mechanism.certain_lead(lead, 0.95)) for lead in range(60)]
            wrong += sum(law(i, lead) for lead, claim in claims if claim is not None and claim > margin)
        assert wrong <= 0.05
    assert mechanism.certain_lead(3, 0.95) == 0
    assert mechanism.certain_lead(2, 0.95) is None
    assert mechanism.certain_lead(9, 0.95) == 6


def test_what_opendp_charges_for_a_choice_covers_the_law_that_it_draws():
    """Version 0.15.1 drew permute-and-flip under zCDP at ε²/8 (opendp #2911), a quarter of its ε²/2.

    By the exact laws, at ε = 4: which law each measurement draws, and what the other one would have cost.
    """
    scale, worlds, n = 0.5, list(itertools.product((0, 1, 2), repeat=3)), 2000
    worst = dict.fromkeys(DISTRIBUTIONS, 0.0)
    for kind, law in DISTRIBUTIONS.items():
        for base, move in itertools.product(worlds, itertools.product((-1, 0, 1), repeat=3)):
            p, q = law(base, scale), law(tuple(np.add(base, move)), scale)
            worst[kind] = max(worst[kind], float((p * np.log(p / q)).sum()))
    zcdp, pure = gumbel_noisy_max(scale, 3), exponential_noisy_max(scale, 3)
    drawn = Counter(zcdp([0, 1, 2]) for _ in range(n))
    exponential = DISTRIBUTIONS["exponential mechanism"]([0, 1, 2], scale)
    assert chi_square([drawn[i] for i in range(3)], exponential, n) > FALSE_ALARM
    assert worst["exponential mechanism"] <= zcdp.map(1) < worst["permute-and-flip"] <= pure.map(1) ** 2 / 2.0


@pytest.mark.parametrize("units", [1, 10**5, 123_456_789, ONE, 3 * ONE, 40 * ONE])
@pytest.mark.parametrize("sensitivity", [1, 3, 2**24, 285 * 2**24])
def test_calibration_never_costs_more_than_planned(units, sensitivity):
    """The mechanism's own map, exactly rounded by OpenDP, stays at or under the planned integer amount."""
    makers = (
        lambda: (DiscreteLaplace(sensitivity, units, 1.0), 0),
        lambda: (DiscreteGaussian(sensitivity, units, 1.0), 0),
        lambda: (PrivateSelection(sensitivity, units, 1.0, "permute-and-flip"), np.array([1, 2])),
        lambda: (PrivateSelection(sensitivity, units, 1.0, "exponential mechanism"), np.array([1, 2])),
        lambda: (NoisyMax(sensitivity, units, 1.0, 2), np.array([1, 2])),
    )
    for make in makers:
        try:
            mechanism, value = make()
        except StudyInvalid:
            assert sensitivity * 2 / from_units(units) > 2**54  # refused for its scale alone
            continue
        mechanism.prepare(mechanism.spend("x"), SYSTEM)(Sensitive(value))


def test_a_planted_miscalibration_is_refused_before_drawing():
    honest = DiscreteLaplace(sensitivity=2, epsilon_units=ONE, unit=1.0)
    half_noise = DiscreteLaplace(sensitivity=1, epsilon_units=ONE, unit=1.0)

    for mechanism, value in (
        (honest, 0),
        (DiscreteGaussian(2, ONE, 1.0), 0),
        (PrivateSelection(2, ONE, 1.0, "permute-and-flip"), np.array([1, 2])),
        (PrivateSelection(2, ONE, 1.0, "exponential mechanism"), np.array([1, 2])),
        (NoisyMax(2, ONE, 1.0, 2), np.array([1, 2])),
        (GaussianRows(3.0, ONE, 1.0, (2, 2)), np.zeros((2, 2), np.int64)),
    ):
        cheap = mechanism.spend("x")
        cheap = type(cheap)(**{**cheap.__dict__, "epsilon_units": ONE - 1000, "rho_units": cheap.rho_units - 1000})
        with pytest.raises(MechanismRefused, match="above the planned spend"):
            mechanism.prepare(cheap, None)(Sensitive(value))  # no source: nothing could be drawn
    assert half_noise.scale < honest.scale


@pytest.mark.parametrize("bad", [1.5, math.nan, True, None, 2**63, "1"])
def test_a_query_that_is_no_exact_integer_is_refused_without_being_named(bad):
    for mechanism in (DiscreteLaplace(1, ONE, 1.0), DiscreteGaussian(1, ONE, 1.0)):
        with pytest.raises(MechanismRefused) as caught:
            mechanism.prepare(mechanism.spend("x"), SYSTEM)(Sensitive(bad))
        assert repr(bad) not in str(caught.value)


@pytest.mark.parametrize(
    "bad", [np.array([1.0, 2.0]), np.array([], dtype=np.int64), np.array([[1]]), np.array([2**63 - 1, 0])]
)
def test_utilities_that_are_no_exact_integers_are_refused(bad):
    for mechanism in (PrivateSelection(1, ONE, 1.0, "permute-and-flip"), NoisyMax(1, ONE, 1.0, 2)):
        with pytest.raises(MechanismRefused):
            mechanism.prepare(mechanism.spend("x"), SYSTEM)(Sensitive(bad))


@pytest.mark.parametrize("sensitivity", [0, -1, 1.0, math.nan, math.inf])
def test_impossible_sensitivities_are_refused_when_the_mechanism_is_made(sensitivity):
    for make in (DiscreteLaplace, DiscreteGaussian):
        with pytest.raises((MechanismRefused, StudyInvalid)):
            make(sensitivity, ONE, 1.0)


def test_noise_goes_through_the_recorder_once():
    mechanism = DiscreteLaplace(2**24, ONE, 1.0)
    noise = Noise(SYSTEM, MemoryRecorder())
    spend = mechanism.spend("score")
    assert noise.recorded(spend) is None
    first = noise.release(spend, mechanism, Sensitive(5), candidate=3)
    assert noise.release(spend, mechanism, Sensitive(999_999_999), candidate=9) == first == noise.recorded(spend)
    assert first["candidate"] == 3


def test_injected_noise_says_so():
    quiet = InjectedNoise(np.random.default_rng(0), factor=0.0)
    assert standing_of(quiet) == "injected"
    assert standing_of(OperatingSystemNoise()) == "operating_system"
    assert standing_of(type("Other", (OperatingSystemNoise,), {})()) == "injected"  # whatever it would draw
    mechanism = DiscreteLaplace(2**24, ONE, 1.0)
    assert mechanism.prepare(mechanism.spend("x"), quiet)(Sensitive(5)) == 5


class Clock:
    """In the place of `time`: whoever looks a second time finds that `working` seconds have gone."""

    def __init__(self, working):
        self.now, self.working, self.looks = 0.0, working, 0

    def monotonic(self):
        self.looks += 1
        self.now += self.working if self.looks == 2 else 0.0
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_noise_is_drawn_precomputed_and_a_choice_takes_whole_pauses(monkeypatch):
    """No step's duration holds a draw: an additive draw is there before its value, a choice is padded."""
    watch, additive = Watch(), DiscreteGaussian(2**24, ONE, 1.0)
    noise = Noise(watch, MemoryRecorder())
    spend = additive.spend("score")
    noise.prepare_draws([(spend, additive)])
    assert len(watch.drawn) == 1  # before any value
    noise.release(spend, additive, Sensitive(2**30))
    assert len(watch.drawn) == 1
    monkeypatch.setattr("dpbo_core.mechanisms.exponential.SELECTION_PAUSE_S", 0.05)
    choice = PrivateSelection(1, ONE, 1.0, "permute-and-flip")
    for working in (0.0, 0.013, 0.049, 0.061):  # seconds that the choice itself takes
        clock = Clock(working)
        monkeypatch.setattr("dpbo_core.mechanisms.exponential.time", clock)
        choice.prepare(choice.spend("x"), SYSTEM)(Sensitive(np.array([5] * 3)))
        assert clock.now == pytest.approx(0.05 if working < 0.05 else 0.1)


def test_saturated_noise_tells_nothing_of_the_value():
    """Noise that hit the end of 64 bits would otherwise return the exact value: clamped, it returns the clamp."""

    class Saturated(OperatingSystemNoise):
        def draw_many(self, measurement, size, imitation):
            return np.full(size, 2**63 - 1)

    for mechanism in (DiscreteLaplace(2**24, ONE, 1.0), DiscreteGaussian(2**24, ONE, 1.0)):
        results = {mechanism.prepare(mechanism.spend("x"), Saturated())(Sensitive(v)) for v in (0, 5, 7654321987)}
        assert results == {2**62}
    with pytest.raises(StudyInvalid):
        DiscreteLaplace(2**55, spent_units(0.5), 1.0)
