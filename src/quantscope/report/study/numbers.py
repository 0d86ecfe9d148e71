"""Write the numbers of a study in the unit of what it measures: points of accuracy, dB, any."""

from dataclasses import dataclass

from quantscope.report.wording import format_rounded
from quantscope.study import StudyResult


@dataclass(frozen=True)
class StudyNumbers:
    """How scores and their changes are shown; `factor` brings fractions to percent.

    `name` is what was measured; `unit` and `change_unit` go into headings, `long_change_unit` onto
    axes. `against` says what changes are from.
    """

    name: str
    factor: float
    unit: str
    change_unit: str
    long_change_unit: str
    digits: str
    against: str

    def value(self, value: float | None) -> str:
        """Give a score without its unit; a dash where there is none."""
        return "–" if value is None else format(self.factor * value, self.digits)

    def with_unit(self, value: float | None) -> str:
        """Give a score with its unit."""
        return self.value(value) + (f" {self.unit}" if self.unit and value is not None else "")

    def change(self, value: float) -> str:
        """Give a change with its sign and a true minus."""
        return format_rounded(self.factor * value, f"+{self.digits}").replace("-", "−")

    def in_unit(self, value: float) -> str:
        """Give a change with its sign and its unit."""
        return f"{self.change(value)} {self.change_unit}".rstrip()

    def heading(self, what: str, unit: str | None = None) -> str:
        unit = self.change_unit if unit is None else unit
        return f"{what}, {unit}" if unit else what


def numbers_of(result: StudyResult) -> StudyNumbers:
    """Choose how the numbers of a study are written."""
    score = result.score
    against = "the float model" if result.has_float_score else "the best configuration"
    if score.unit == "share":
        name = "accuracy" if score.is_accuracy else score.measure
        points = ("points", "percentage points")
        return StudyNumbers(name, 100.0, "%", *points, ".2f", against)
    digits = ".2f" if score.unit == "dB" else ".4g"
    unit = score.unit
    return StudyNumbers(score.measure, 1.0, unit, unit, unit, digits, against)
