"""Watch a released model: has its score fallen since? Many looks cost one price, up to the first alarm (MATH §6.6).

| file | holds |
|---|---|
| `terms` | what a watch is opened with, what a look compares, and what its certificate must show |
| `power` | how large a fall a watch finds, and how often it errs |
| `watching` | the plan of a watch: its price, its reference, what to expect |
| `todays_table` | the table or the pool of tables that a look reads |
| `looks` | a look: charge once, draw the threshold's noise once, compare, record one bit |
| `recorded_looks` | the looks that the ledger holds |
| `look_document`, `mlflow_timeline` | what a look says on a screen, and a watch as one run in MLflow |
| `flow`, `schedule_flow` | a look as a Prefect flow, once or on a schedule |
| `command` | `dpbo watch` |
"""

KIND = "watch"  # in the ledger's column of methods
LOOK_PREFIX = "look "  # before a look's name, where the ledger keeps its bit
WATCH_COMMAND = ("dpbo.features.watch.command:watch", "Monitor a model's score over time at one fixed ε.")
