"""Make the page of a comparison."""

from quantscope.run import ComparisonDetails


def comparison_page(details: ComparisonDetails) -> str:
    """Make the page from what was gathered beside a comparison."""
    # It loads matplotlib: a comparison that is only printed does not wait for that.
    from quantscope.report.compare.html import comparison_html

    return comparison_html(
        details.comparison,
        network=details.network,
        pairing=details.pairing,
        accuracy=details.accuracy,
        histograms=details.histograms,
        versions=details.versions,
        other_network=details.other_network,
        other_accuracy=details.other_accuracy,
    )
