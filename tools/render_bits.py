"""Make the section of docs/results.md on bits from maps that were printed as JSON.

quantscope import-keras pretrainedResnet.h5 -o reference.onnx
quantscope quantize reference.onnx -o symmetric.onnx --activations int8 --symmetric-activations
quantscope bits reference.onnx --per-tensor --data full --images 10000 --yes --json > tensor.json
quantscope bits reference.onnx --per-channel --data full --images 10000 --yes --json > channel.json
quantscope bits symmetric.onnx --float reference.onnx --weights 4,6,8 --activations 4,6,8 \\
    --data full --images 10000 --yes --json > symmetric.json
quantscope bits reference.onnx --per-tensor --range best --weights 3,4,6,8 --activations 3,4,6,8 \\
    --data full --images 10000 --yes --json > best-tensor.json
quantscope bits reference.onnx --per-channel --range best --weights 3,4,6,8 --activations 3,4,6,8 \\
    --data full --images 10000 --yes --json > best-channel.json
python tools/render_bits.py tensor.json channel.json symmetric.json \\
    best-tensor.json best-channel.json
"""

import argparse
import json
from pathlib import Path
from typing import Any

from quantscope.files import write_whole

TARGET = Path(__file__).parent.parent / "docs" / "results.md"
TITLE = "## What each bit buys: reference.onnx\n"
COMMANDS = "\n".join((__doc__ or "").splitlines()[2:-1] + (__doc__ or "").splitlines()[-1:])
PUBLISHED = {"W8A8": 87.05, "W6A6": 76.57, "W4A8": 51.64, "W4A4": 11.69}
"""The original project's map of the same network, in %."""

WHY = """
Why they differ:

- The original rounds in hooks of a float network; here a written model is quantized everywhere, the
  sums of the residual branches and the pooled features among them.
- *One scale for each output channel* moves W4A8 from {tensor_W4A8:.2f} to {channel_W4A8:.2f} %; the
  published {W4A8:.2f} % lies beside the second. In few steps a channel of small weights has next to
  none of its own where it shares those of the largest.
- *Symmetric activations* waste the negative half of all steps behind a ReLU, which is one bit: W6A6
  falls from {channel_W6A6:.2f} to {symmetric_W6A6:.2f} % and W4A4 from {channel_W4A4:.2f} to
  {symmetric_W4A4:.2f} %, towards the published {W6A6:.2f} and {W4A4:.2f} %, and W8A8 is
  {symmetric_W8A8:.2f} beside {W8A8:.2f} %. That the original's are symmetric is a guess from these
  numbers.
- The original seems to choose its ranges on test images. Here they come from training images:
  {calibration}.
- Ranges of 8 bits are too wide for 4. The best range for each width, by the mean square error on
  the same training images, brings W4A4 per channel from {channel_W4A4:.2f} to
  {best_channel_W4A4:.2f} %, and W4A8 from {channel_W4A8:.2f} to {best_channel_W4A8:.2f} %. At 8
  bits it changes {best_change:+.2f} points. The least error of the values is not the best answer:
  with one scale a tensor W6A6 has {best_tensor_W6A6:.2f} instead of {tensor_W6A6:.2f} %.
"""


def score(found: dict[str, Any], label: str) -> float:
    (cell,) = (cell for cell in found["cells"] if cell["label"] == label)
    return 100 * float(cell["score"])


def width(bits: int | None) -> str:
    return "float" if bits is None else str(bits)


def table(found: dict[str, Any]) -> str:
    """Write a map as Markdown: weights down, activations across."""
    heads = [width(bits) for bits in found["activations"]]
    rows = [f"| weights | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for bits in found["weights"]:
        scores = [100 * cell["score"] for cell in found["cells"] if cell["weights"] == bits]
        rows.append(f"| {width(bits)} | {' | '.join(f'{number:.2f}' for number in scores)} |")
    return "\n".join(rows)


def beside(maps: dict[str, dict[str, Any]]) -> str:
    """Write the published cells beside ours."""
    heads = ("published", "per tensor", "per channel", "symmetric too", "per channel, best range")
    rows = [f"| | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for label, published in PUBLISHED.items():
        ours = (
            score(maps[key], label) for key in ("tensor", "channel", "symmetric", "best_channel")
        )
        rows.append(f"| {label} | {published:.2f} | {' | '.join(f'{s:.2f}' for s in ours)} |")
    return "\n".join(rows)


def section(maps: dict[str, dict[str, Any]]) -> str:
    facts = {f"{key}_{label}": score(maps[key], label) for key in maps for label in PUBLISHED}
    change = facts["best_channel_W8A8"] - facts["channel_W8A8"]
    one = maps["channel"]
    why = WHY.format(
        **facts, **PUBLISHED, calibration=maps["best_channel"]["range_data"], best_change=change
    )
    made = one["provenance"]
    return f"""{TITLE}
Top-1 accuracy in % of the MLPerf Tiny reference on all {one["samples"]:,} CIFAR-10 test images, by
the arithmetic that the model states: bits of the weights down, of the activations across, float as
the last row and column. The float network has {score(one, "WfloatAfloat"):.2f} %. Made by:

```
{COMMANDS}
```

The original project publishes four cells of such a map of the same network:

{beside(maps)}
{why}
### One scale a tensor, the ranges of 8 bits

{table(maps["tensor"])}

### One scale an output channel, the ranges of 8 bits

{table(maps["channel"])}

### One scale a tensor, the range of least error for each width

{table(maps["best_tensor"])}

### One scale an output channel, the range of least error for each width

{table(maps["best_channel"])}

Int8 weights and activations, MinMax calibration, {maps["best_channel"]["range_data"]}; quantscope
{made["quantscope"]}, onnxruntime {made["onnxruntime"]}, {made["cpu"]}; images {one["data"]}, digest
{one["data_digest"]}. Any cell again: `quantize --weight-bits N --activation-bits M` with the same
options, and `evaluate --data full`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    keys = ("tensor", "channel", "symmetric", "best_tensor", "best_channel")
    for key in keys:
        parser.add_argument(key, type=Path)
    given = parser.parse_args()
    maps = {key: json.loads(getattr(given, key).read_text()) for key in keys}
    before = TARGET.read_text().partition(TITLE)[0].rstrip()
    write_whole(TARGET, f"{before}\n\n{section(maps)}".encode())


if __name__ == "__main__":
    main()
