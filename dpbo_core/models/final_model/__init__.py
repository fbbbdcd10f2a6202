"""The files of a final model: how it is saved, checked when it is loaded, and served without dpbo."""
