"""Accounting: what draws of noise cost together, and what a cap admits. Arithmetic alone, without a database.

| module | holds |
|---|---|
| `composition` | `Total`, the sums of spends, and `compose`; `Filter`, a dataset's draws at one Rényi order |
| `account` | `PrivacyBudget`, a dataset's cap; `Account`, its history; `Totals`, what the ledger seals of it |
| `admission` | `admit`, which refuses a `Request` by a message that says why; `Price` of an edition |
| `forecast` | what is left, and when a budget ends at the rhythm of its studies |
| `certificate` | ε and δ of a release, composed again from the draws that it lists |

Amounts are integers of 10⁻¹², so that ten tenths fill a cap of 1 exactly:

>>> from dpbo_core.ledger.accounting.account import PrivacyBudget
>>> from dpbo_core.ledger.accounting.composition import Total
>>> from dpbo_core.ledger.accounting.composition import NOT_FILTERED
>>> cap = PrivacyBudget.of("clinic", epsilon=1.0, delta=1e-6)
>>> tenth = Total(epsilon_units=10**11, delta_units=0, rho_units=5 * 10**9)
>>> spent = sum([tenth] * 9, Total(0, 0, 0))
>>> [cap.admits(total, None, NOT_FILTERED) for total in (spent + tenth, spent + tenth + Total(1, 0, 10**12))]
[True, False]
"""
