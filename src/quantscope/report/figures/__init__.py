"""Results as matplotlib figures: pure functions, on the page's light or dark theme."""

from quantscope.report.figures.channels import channel_error
from quantscope.report.figures.classes import confusion, confusion_difference, per_class_change
from quantscope.report.figures.feature_maps import feature_maps
from quantscope.report.figures.histograms import activation_histogram, weight_histograms
from quantscope.report.figures.ranking import sensitivity_ranking
from quantscope.report.figures.residuals import residual_branches
from quantscope.report.figures.scales import scales_along, weight_ranges
from quantscope.report.figures.sources import error_sources
from quantscope.report.figures.sqnr import sqnr_along
from quantscope.report.figures.weights import weights_heatmap

__all__ = [
    "activation_histogram",
    "channel_error",
    "confusion",
    "confusion_difference",
    "error_sources",
    "feature_maps",
    "per_class_change",
    "residual_branches",
    "scales_along",
    "sensitivity_ranking",
    "sqnr_along",
    "weight_histograms",
    "weight_ranges",
    "weights_heatmap",
]
