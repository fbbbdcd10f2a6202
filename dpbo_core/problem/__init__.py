"""The problem that a study poses, as values that every floor above may hold: [model], [search], public facts."""
