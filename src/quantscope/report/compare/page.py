"""Make the page of all that was found out about a comparison."""

from quantscope.run.comparison_details import ComparisonDetails


def comparison_page(details: ComparisonDetails) -> str:
    """Make the page, which loads matplotlib: what is only printed does not wait for it."""
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
