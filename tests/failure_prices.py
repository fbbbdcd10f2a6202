"""What the spends of `dp_hypo` studies were before densities, laws of K and tolerances were changed.

A reservation is taken over by the same plan alone: an unfinished study of an older version needs these spends.
"""

import copy

from test_dp_hypo import study

OPTIONS = {
    "default": {},
    "large": {},
    "logarithmic": {"shape": 0.0},
    "adaptive": {"sampler": "gaussian_process"},
    "narrow": {"sampler": "gaussian_process", "lower": 1.0},
    "flat": {"sampler": "gaussian_process", "upper": 1.0, "lower": 0.9},
    "hidden": {"hide_duration": True},
    "poisson": {"stopping": "poisson"},
    "negative": {"shape": -0.5},
}
PUBLIC = {
    "study": {"name": "trial", "method": "dp_hypo"},
    "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-6},
    "data": {"source": "breast_cancer", "validation_share": 0.5},
    "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
    "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 16}},
    "search": {"steps": 5},
}


def tables_of(folder, name):
    """The study of a name, "base: options"."""
    base, _, options = name.partition(": ")
    if base == "public_training":
        tables = copy.deepcopy(PUBLIC) | {"method": OPTIONS[options]}
        tables["privacy"]["epsilon"] = 5.0 if options == "adaptive" else 1.0
        return tables
    tables = study(folder, base, **OPTIONS[options])
    if options == "large":
        tables["search"]["steps"], tables["data"]["n_training"] = 20, 20_000
    return tables


def _spend(epsilon, delta, rho, sensitivity, noise_scale):
    return {
        "what": "best trial",
        "mechanism": "best of a random number of private trials",
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "sensitivity": sensitivity,
        "noise_scale": noise_scale,
    }


_NUMBERS = {  # ε, δ, ρ, sensitivity, noise scale
    "dp_sgd: adaptive": (8.0, 1e-05, 32.000000000032, 0.0125, 0.06391093431466004),
    "dp_sgd: default": (8.0, 1e-05, 32.000000000032, 0.0125, 0.04276445951621243),
    "dp_sgd: flat": (8.0, 1e-05, 32.000000000032, 0.0125, 0.04364259367242696),
    "dp_sgd: hidden": (8.0, 1e-05, 32.000000000032, 0.0125, 0.04363063078373244),
    "dp_sgd: large": (8.0, 1e-05, 32.000000000032, 0.0125, 0.21093024851363673),
    "dp_sgd: logarithmic": (8.0, 1e-05, 32.000000000032, 0.0125, 0.03993745802588389),
    "dp_sgd: narrow": (8.0, 1e-05, 32.000000000032, 0.0125, 0.05809139047493172),
    "dp_sgd: negative": (8.0, 1e-05, 32.000000000032, 0.0125, 0.03767725962283701),
    "dp_sgd: poisson": (8.0, 1e-05, 32.000000000032, 0.0125, 0.040959790998894324),
    "noisy_gradient_descent: adaptive": (8.0, 1e-05, 32.000000000032, 0.0125, 0.03328835632853994),
    "noisy_gradient_descent: default": (8.0, 1e-05, 32.000000000032, 0.0125, 0.021522877515044222),
    "noisy_gradient_descent: flat": (8.0, 1e-05, 32.000000000032, 0.0125, 0.02194796550454643),
    "noisy_gradient_descent: hidden": (8.0, 1e-05, 32.000000000032, 0.0125, 0.021990060803790498),
    "noisy_gradient_descent: large": (8.0, 1e-05, 32.000000000032, 0.0125, 0.029074636406722306),
    "noisy_gradient_descent: logarithmic": (8.0, 1e-05, 32.000000000032, 0.0125, 0.020195112178034002),
    "noisy_gradient_descent: narrow": (8.0, 1e-05, 32.000000000032, 0.0125, 0.03011607169884478),
    "noisy_gradient_descent: negative": (8.0, 1e-05, 32.000000000032, 0.0125, 0.01912370738263347),
    "noisy_gradient_descent: poisson": (8.0, 1e-05, 32.000000000032, 0.0125, 0.020793732740131896),
    "objective_perturbation: adaptive": (8.0, 0.0, 32.000000000032, 0.0125, 0.029658850607506615),
    "objective_perturbation: default": (8.0, 0.0, 32.000000000032, 0.0125, 0.0187500000000375),
    "objective_perturbation: flat": (8.0, 0.0, 32.000000000032, 0.0125, 0.019521289940436268),
    "objective_perturbation: hidden": (8.0, 1e-05, 32.000000000032, 0.0125, 0.008660220407762029),
    "objective_perturbation: large": (8.0, 0.0, 32.000000000032, 0.0125, 0.0187500000000375),
    "objective_perturbation: logarithmic": (8.0, 0.0, 32.000000000032, 0.0125, 0.012500000000025003),
    "objective_perturbation: narrow": (8.0, 0.0, 32.000000000032, 0.0125, 0.02533544783931012),
    "objective_perturbation: negative": (8.0, 0.0, 32.000000000032, 0.0125, 0.009375000000011721),
    "objective_perturbation: poisson": (8.0, 1e-05, 32.000000000032, 0.0125, 0.009958015518815325),
    "output_perturbation: adaptive": (8.0, 0.0, 32.000000000032, 0.0125, 0.029658850607506615),
    "output_perturbation: default": (8.0, 0.0, 32.000000000032, 0.0125, 0.0187500000000375),
    "output_perturbation: flat": (8.0, 0.0, 32.000000000032, 0.0125, 0.019521289940436268),
    "output_perturbation: hidden": (8.0, 1e-05, 32.000000000032, 0.0125, 0.008660220407762029),
    "output_perturbation: large": (8.0, 0.0, 32.000000000032, 0.0125, 0.0187500000000375),
    "output_perturbation: logarithmic": (8.0, 0.0, 32.000000000032, 0.0125, 0.012500000000025003),
    "output_perturbation: narrow": (8.0, 0.0, 32.000000000032, 0.0125, 0.02533544783931012),
    "output_perturbation: negative": (8.0, 0.0, 32.000000000032, 0.0125, 0.009375000000011721),
    "output_perturbation: poisson": (8.0, 1e-05, 32.000000000032, 0.0125, 0.009958015518815325),
    "public_training: adaptive": (5.0, 0.0, 12.500000000013, 0.0035087719298245615, 0.005116040420037832),
    "public_training: default": (1.0, 0.0, 0.500000000001, 0.0035087719298245615, 0.010526315789494737),
    "public_training: logarithmic": (1.0, 0.0, 0.500000000001, 0.0035087719298245615, 0.0070175438596701755),
}
PRICES = {name: [_spend(*numbers)] for name, numbers in _NUMBERS.items()}
