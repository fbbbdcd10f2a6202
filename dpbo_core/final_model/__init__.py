"""The model to use: trained on the public set at the released hyperparameters, and its files.

MLflow opens a saved model by this package's `_load_pyfunc`, under the name it had when it was saved.
"""

from dpbo_core.final_model.train import FinalModel, load, train_final

__all__ = ["FinalModel", "load", "train_final"]

_load_pyfunc = load
