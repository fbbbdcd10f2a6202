"""Many looks at one released model for one price: has its score fallen? (MATH §6.6)."""

KIND = "watch"  # in the ledger's column of methods
LOOK = "look "  # before a look's name, where the ledger keeps its bit
COMMAND = ("dpbo.features.watch.command:watch", "Has the model gone stale? One price for many looks.")
