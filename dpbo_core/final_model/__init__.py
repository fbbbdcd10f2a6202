"""The model to use: trained on the public set at the released hyperparameters, and its files."""

from dpbo_core.final_model.train import FinalModel

__all__ = ["FinalModel"]
