"""Train the bundled ResNet8 on CIFAR-10's training images.

    python tools/train_resnet8.py --out runs/resnet8

Interrupted, the same command goes on at the last finished epoch. 2,000 training images are held
out and choose between the averaged and the last weights; the test images are never looked at.
Writes `resnet8.safetensors` and `training.json` into --out; `tools/bundle_model.py` makes the
package's files from them.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional

from quantscope.data import load_full
from quantscope.zoo.torch_resnet8 import ResNet8, fold_batch_norm

# The network sees raw pixels. Training on pixels/64 keeps the first layer's gradients sane, and a
# power of two goes back into the stem's weights without rounding.
PIXEL_SCALE = 64.0
HELD_OUT_PER_CLASS = 200
CROP_PADDING = 4


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.25)
    parser.add_argument("--weight-decay", type=float, default=3e-4)
    parser.add_argument("--average-decay", type=float, default=0.9995)
    parser.add_argument("--warm-up", type=float, default=0.2, help="share of the steps")
    return parser.parse_args()


def split(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and indices held out, the same number of each class."""
    rng = np.random.default_rng(seed)
    held_out = np.concatenate(
        [
            rng.permutation(np.flatnonzero(labels == c))[:HELD_OUT_PER_CLASS]
            for c in range(10)
        ]
    )
    return np.setdiff1d(np.arange(len(labels)), held_out), np.sort(held_out)


def augmented(padded: torch.Tensor, rows: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """A random crop and flip of each image; `padded` is uint8 [N, 3, 40, 40]."""
    n = len(rows)
    offset = torch.randint(0, 2 * CROP_PADDING + 1, (2, n, 1), generator=rng)
    span = torch.arange(32)
    y, x = offset[0] + span, offset[1] + span
    flip = torch.rand(n, generator=rng) < 0.5
    x[flip] = x[flip].flip(1)
    channel = torch.arange(3)
    batch = padded[
        rows[:, None, None, None], channel[None, :, None, None], y[:, None, :, None], x[:, None, None]
    ]
    return scaled(batch)


def scaled(images: torch.Tensor) -> torch.Tensor:
    return (images.float() / PIXEL_SCALE).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def count_correct(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> int:
    model.eval()
    batches = zip(images.split(500), labels.split(500), strict=True)
    correct = sum(int((model(scaled(x)).argmax(1) == y).sum()) for x, y in batches)
    model.train()
    return correct


def one_cycle(step: int, steps: int, warm_up: float) -> float:
    """Share of the highest learning rate: up in a straight line, down along a cosine."""
    rising = warm_up * steps
    if step < rising:
        return 0.04 + 0.96 * step / rising
    return 0.5 * (1 + float(np.cos(np.pi * (step - rising) / (steps - rising))))


def main() -> None:
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    train = load_full("train")
    images = torch.from_numpy(np.array(train.images))
    labels = torch.from_numpy(np.array(train.labels, dtype=np.int64))
    training, held_out = (torch.from_numpy(part) for part in split(labels.numpy(), args.seed))
    padding = (CROP_PADDING,) * 4
    padded = functional.pad(images.float(), padding, mode="reflect").to(torch.uint8)

    model = ResNet8(batch_norm=True).to(memory_format=torch.channels_last)
    average = ResNet8(batch_norm=True).to(memory_format=torch.channels_last)
    average.load_state_dict(model.state_dict())
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": args.weight_decay}, {"params": plain}],
        lr=args.learning_rate,
        momentum=0.9,
        nesterov=True,
    )
    steps_per_epoch = len(training) // args.batch
    steps = args.epochs * steps_per_epoch

    checkpoint = args.out / "checkpoint.pt"
    first_epoch, seconds = 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        average.load_state_dict(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
        first_epoch, seconds = saved["epoch"], saved["seconds"]
        print(f"goes on after epoch {first_epoch}", flush=True)

    for epoch in range(first_epoch, args.epochs):
        began, total_loss = time.monotonic(), 0.0
        # A generator for each epoch, so that an interrupted run sees the same batches.
        rng = torch.Generator().manual_seed(args.seed * 100_000 + epoch)
        order = training[torch.randperm(len(training), generator=rng)]
        for i in range(steps_per_epoch):
            step = epoch * steps_per_epoch + i
            for group in optimizer.param_groups:
                group["lr"] = args.learning_rate * one_cycle(step, steps, args.warm_up)
            rows = order[i * args.batch : (i + 1) * args.batch]
            loss = functional.cross_entropy(model(augmented(padded, rows, rng)), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
            keep = min(args.average_decay, (step + 1) / (step + 10))
            with torch.no_grad():
                pairs = zip(
                    average.state_dict().values(), model.state_dict().values(), strict=True
                )
                for mean, now in pairs:
                    if mean.is_floating_point():
                        mean.lerp_(now, 1 - keep)
        seconds += time.monotonic() - began
        scores = [count_correct(m, images[held_out], labels[held_out]) for m in (model, average)]
        print(
            f"epoch {epoch + 1}/{args.epochs}  loss {total_loss / steps_per_epoch:.4f}  "
            f"held out {scores[0] / len(held_out):.4f}, averaged {scores[1] / len(held_out):.4f}  "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
        state = {
            "model": model.state_dict(),
            "average": average.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch + 1,
            "seconds": seconds,
        }
        torch.save(state, checkpoint.with_suffix(".tmp"))
        os.replace(checkpoint.with_suffix(".tmp"), checkpoint)

    candidates = {"last": model, "averaged": average}
    correct = {
        name: count_correct(m, images[held_out], labels[held_out])
        for name, m in candidates.items()
    }
    chosen = max(correct, key=lambda name: correct[name])
    folded = fold_batch_norm(candidates[chosen])
    with torch.no_grad():
        folded.stem.weight /= PIXEL_SCALE
    tensors = {name: t.contiguous() for name, t in folded.state_dict().items()}
    save_file(tensors, args.out / "resnet8.safetensors")
    record = {
        **{key: value for key, value in vars(args).items() if key != "out"},
        "held_out_images": len(held_out),
        "held_out_correct": correct,
        "chosen": chosen,
        "training_images": len(training),
        "training_minutes": round(seconds / 60, 1),
        "torch": torch.__version__,
    }
    (args.out / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
