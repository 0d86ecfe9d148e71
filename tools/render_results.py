"""Make docs/results.md from the folders of finished studies.

quantscope import-keras pretrainedResnet.h5 -o reference.onnx
quantscope study --preset ptq --data full --out studies/bundled
quantscope study --preset ptq --data full --model reference.onnx --out studies/reference
python tools/render_results.py studies/bundled studies/reference
"""

import argparse
from pathlib import Path

from quantscope.files import write_whole

TARGET = Path(__file__).parent.parent / "docs" / "results.md"
COMMANDS = "\n".join(line.strip() for line in (__doc__ or "").splitlines()[2:6])
BITS = "## What each bit buys"
HEAD = f"""# What each choice costs

42 configurations of static post-training quantization, on the bundled ResNet8 and on the MLPerf
Tiny reference, each measured on all 10,000 CIFAR-10 test images. Made by:

```
{COMMANDS}
```

*reference* is the accuracy by the arithmetic that the model states, *runtime* by the kernels that
ship. A kernel gap with a star is more than chance (McNemar exact, p < 0.05); it belongs to the CPU
that is named, not to the quantization. onnxruntime's entropy calibration with its default of 128
bins has one candidate, the whole range, and so equals MinMax; 2,048 bins really search. PyTorch
programs have no runtime execution here.
"""


def section(folder: Path) -> str:
    """Take the study's report without figures and without seconds, which say nothing elsewhere."""
    title, *lines = (folder / "report.md").read_text().splitlines()
    kept = [f"## {title.removeprefix('# Quantization study of ')}"]
    for line in lines:
        if line.startswith(("![", "*", "Made from", "## Configurations")):
            continue
        if line.startswith("|"):
            kept.append(line.rsplit("|", 2)[0] + "|")
        else:
            kept.append(line.replace("## ", "### ", 1) if line.startswith("## ") else line)
    text = "\n".join(kept)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", type=Path, nargs="+")
    studies = parser.parse_args().studies
    # What `render_bits.py` has made stays behind it.
    _, title, bits = TARGET.read_text().partition(BITS)
    write_whole(TARGET, "\n".join([HEAD, *map(section, studies), title + bits]).encode())


if __name__ == "__main__":
    main()
