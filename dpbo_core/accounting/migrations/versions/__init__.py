"""One file a step. A step that has been published never changes."""
