"""Train privately where the training set is sensitive too: `dp_hypo` and its base algorithms (Wang et al., 2023).

| file | holds |
|---|---|
| `dp_hypo` | the method: its options, its plan and its guarantee |
| `hypo_search` | a running search: a hidden number of trials, their law, and what one of them may cost |
| `base` | what a base algorithm is, what a trial of it costs, and what its file declares |
| `union` | the base algorithms, in the order of preference |
| `noisy_gradient_descent`, `dp_sgd` | training by noisy gradients; `gradients` holds what they share |
| `private_trials` | `PrivateTrials`: the same with a user's own trainer; `trial_plan` holds what it shows |
| `trial_study`, `trial_flow` | the same as a study file with a [trial]: `dpbo plan` and `dpbo tune` |
| `trial_families`, `trial_price` | what one training is declared to cost; the noise and the price of the search |
| `trial_search`, `trial_vault` | the running search, and its sealed trials |
| `trial_process`, `trial_child` | one process for one training, and what it does |
| `output_perturbation`, `objective_perturbation` | training by perturbation; `solving` holds what they share |
"""
