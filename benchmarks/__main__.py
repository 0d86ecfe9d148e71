"""Run every benchmark, or those that are named."""

import sys
from importlib import import_module

NAMES = (
    "evaluation",
    "calibration_memory",
    "compare",
    "pt2e_compare",
    "sensitivity",
    "bits",
    "diagnose",
    "pairs",
    "whatif",
    "speed_paths",
    "playground",
    "large",
)


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    if unknown := set(chosen) - set(NAMES):
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    for name in chosen:
        import_module(f"benchmarks.{name}").run()
        print()


if __name__ == "__main__":
    main()
