"""The campaigns of `make audit`. One may use a test of another room, as pytest's own path lets tests do."""

import of_features  # noqa: F401  it lets one import the other rooms' tests
