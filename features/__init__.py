"""Features: folders that can be deleted, each with its query, flow, command, tests and pages.

`make without FEATURE=watch` deletes one in a copy, and checks and tests the rest. A feature declares its parts in
`pyproject.toml`. The core asks for them by name and refuses what no installed feature declares. Core and shell
never import a feature, and features never import one another.
"""
