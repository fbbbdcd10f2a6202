"""The model to use: trained on the public set at the released hyperparameters, and its files."""

from dpbo_core.final_model.train import FinalModel, load, train_final

__all__ = ["FinalModel", "load", "train_final"]
