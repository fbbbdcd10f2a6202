"""The ledger: one database of what was spent and released. It knows no method, no study file and no address.

| module | holds |
|---|---|
| `ledger`, `owners_ledger` | `PrivacyLedger`: `reserve`, and what only the owner decides |
| `charge` | `Charge`, `QueryKey`, `Caller`: what is charged, and who asks |
| `reservation` | `Reservation`: a draw is recorded in the transaction that draws it, a release once; takeovers |
| `lookup` | recorded studies, draws and releases read back |
| `policy`, `sources` | the facts about a dataset, whose file is whose; a source, its marks and comparison |
| `accounts` | a dataset's cap and its account |
| `history`, `audit`, `recovery` | the chain of entries; export and verify; lost spends written again |
| `store`, `schema` | transactions, rows and their entries, tables |
| `rollback_guard` | what lies outside the database: how far it had come |
| `address` | the URL, the engine, and how long a server is waited for |

The whole plan is reserved before a record is read; a draw is made inside the transaction that records it; a rerun
takes both over, pays nothing and draws nothing:

>>> from dpbo_core.ledger.accounting.account import PrivacyBudget
>>> from dpbo_core.ledger.charge import Charge, QueryKey
>>> from dpbo_core.ledger.ledger import PrivacyLedger
>>> from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
>>> from dpbo_core.privacy.release import PrivacyPlan, Spend
>>> from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
>>> proof, unit = Evidence(Standing.STANDARD, "Laplace"), PrivacyUnit.VALIDATION_RECORD
>>> spend = Spend("score", "discrete noise", 10**12, 0, 5 * 10**11, sensitivity=0.01, noise_scale=0.01)
>>> guarantee = PrivacyGuarantee(1.0, 0.0, unit, NeighboringRelation.REPLACE_ONE, (), proof)
>>> charge = Charge(QueryKey("0" * 64, "clinic", "first", "1", "a method"), PrivacyPlan(guarantee, (spend,)))
>>> ledger = PrivacyLedger("sqlite:///ledger.db")
>>> ledger.set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=0.0))
True
>>> ledger.reserve(charge, noise="operating_system").record(spend, lambda: {"score": 0.81})
{'score': 0.81}
>>> ledger.reserve(charge, noise="operating_system").record(spend, lambda: {"score": 0.17})
{'score': 0.81}
>>> ledger.accounts("clinic")[0].spent_epsilon
(1.0, 0.0)
"""
