"""The sections of a study that every floor may hold as values: [model] and [search], and how a section is read."""
