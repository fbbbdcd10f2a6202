"""What the printed noise of every priced mechanism is worth, each as its own file declares it: a closed union."""

from collections.abc import Mapping

from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.gaussian_rows import GaussianRows
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noisy_max import NoisyMax
from dpbo_core.mechanisms.random_projection import RandomProjection
from dpbo_core.mechanisms.repeat_and_select import RepeatAndSelect
from dpbo_core.privacy.certified import Worth

WORTH_OF_MECHANISM: Mapping[str, Worth] = {
    **DiscreteLaplace.WORTH,
    **LaplaceHistogram.WORTH,
    **DiscreteGaussian.WORTH,
    **GaussianRows.WORTH,
    **PrivateSelection.WORTH,
    **NoisyMax.WORTH,
    **RandomProjection.WORTH,
    **RepeatAndSelect.WORTH,
    **AboveThreshold.WORTH,
}
