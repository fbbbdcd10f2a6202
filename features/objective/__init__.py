"""Score candidates privately for anybody's search: n scores, in any order, at one price (MATH §7.1).

| file | holds |
|---|---|
| `price` | what n scores and a choice cost, what a released score is, and what the certificate must show |
| `parameters` | which questions may be asked: plain values, and names that the estimator has |
| `score_session` | one session: charge once, draw each score once, choose, release |
| `objective_handle` | a session as an object that can be pickled and holds no record |
| `submission` | models and predictions that were made elsewhere, as questions |
| `smoothed_choice` | which candidate is best, by all released scores together |
| `private_objective` | `PrivateObjective`, on tables in memory |
"""

KIND = "objective"  # in the ledger's column of methods
