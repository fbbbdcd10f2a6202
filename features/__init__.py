"""Features: folders that can be deleted, each with its query, flow, command, tests and pages.

To delete one, delete its folder, the folders of `tests/features` that name it, its pages, and the lines that name
it in `pyproject.toml`, `mkdocs.yml` and `dpbo/__init__.py`; `make without FEATURE=watch` does so in a copy, and
checks and tests the rest. A feature declares its parts in `pyproject.toml`. The core asks for them by name and
refuses what no installed feature declares. Core and shell never import a feature, and features never import one
another.
"""
