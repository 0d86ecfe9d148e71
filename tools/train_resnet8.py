"""Train the bundled ResNet8 on CIFAR-10's training images.

    python tools/train_resnet8.py --out runs/resnet8

Interrupted, the same command goes on at the last finished epoch. 2,000 training images are held
out and choose between the averaged and the last weights; the test images are never looked at.
Writes `resnet8.safetensors` and `training.json` into --out; `tools/bundle_model.py` makes the
package's files from them.
"""

import argparse
import json
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
    """Choose indices to train on and indices held out, the same number of each class."""
    rng = np.random.default_rng(seed)
    held_out = np.concatenate(
        [rng.permutation(np.flatnonzero(labels == c))[:HELD_OUT_PER_CLASS] for c in range(10)]
    )
    return np.setdiff1d(np.arange(len(labels)), held_out), np.sort(held_out)


def augmented(padded: torch.Tensor, rows: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Crop and flip each image at random; `padded` is uint8 [N, 3, 40, 40]."""
    n = len(rows)
    offset = torch.randint(0, 2 * CROP_PADDING + 1, (2, n, 1), generator=rng)
    span = torch.arange(32)
    y, x = offset[0] + span, offset[1] + span
    flip = torch.rand(n, generator=rng) < 0.5
    x[flip] = x[flip].flip(1)
    channel = torch.arange(3)
    image, y, x = rows[:, None, None, None], y[:, None, :, None], x[:, None, None, :]
    return scaled(padded[image, channel[None, :, None, None], y, x])


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
    """Give the share of the highest learning rate: up in a straight line, down along a cosine."""
    rising = warm_up * steps
    if step < rising:
        return 0.04 + 0.96 * step / rising
    return 0.5 * (1 + float(np.cos(np.pi * (step - rising) / (steps - rising))))


class Run:
    """A training run from its last checkpoint on: network, running average and optimizer."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.model = ResNet8(batch_norm=True).to(memory_format=torch.channels_last)
        self.average = ResNet8(batch_norm=True).to(memory_format=torch.channels_last)
        self.average.load_state_dict(self.model.state_dict())
        parameters = list(self.model.parameters())
        decayed = {
            # Biases and batch norms are not decayed.
            "params": [p for p in parameters if p.ndim > 1],
            "weight_decay": args.weight_decay,
        }
        plain = {"params": [p for p in parameters if p.ndim <= 1]}
        self.optimizer = torch.optim.SGD(
            [decayed, plain], lr=args.learning_rate, momentum=0.9, nesterov=True
        )
        self.epoch, self.seconds = 0, 0.0
        self.checkpoint = args.out / "checkpoint.pt"
        if self.checkpoint.exists():
            saved = torch.load(self.checkpoint, weights_only=True)
            for name in ("model", "average", "optimizer"):
                getattr(self, name).load_state_dict(saved[name])
            self.epoch, self.seconds = saved["epoch"], saved["seconds"]
            print(f"goes on after epoch {self.epoch}", flush=True)

    def save(self) -> None:
        state = {n: getattr(self, n).state_dict() for n in ("model", "average", "optimizer")}
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save({**state, "epoch": self.epoch, "seconds": self.seconds}, temporary)
        # A run that is stopped while it writes keeps the checkpoint before.
        temporary.replace(self.checkpoint)

    def train_epoch(
        self, padded: torch.Tensor, labels: torch.Tensor, training: torch.Tensor
    ) -> float:
        """Pass over the images once; give the mean loss."""
        args, began, losses = self.args, time.monotonic(), []
        steps_per_epoch = len(training) // args.batch
        # A generator for each epoch, so that an interrupted run sees the same batches.
        rng = torch.Generator().manual_seed(args.seed * 100_000 + self.epoch)
        order = training[torch.randperm(len(training), generator=rng)]
        for i in range(steps_per_epoch):
            step = self.epoch * steps_per_epoch + i
            share = one_cycle(step, args.epochs * steps_per_epoch, args.warm_up)
            for group in self.optimizer.param_groups:
                group["lr"] = args.learning_rate * share
            rows = order[i * args.batch : (i + 1) * args.batch]
            scores = self.model(augmented(padded, rows, rng))
            loss = functional.cross_entropy(scores, labels[rows])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            # Early on the average forgets quickly, or the first weights would stay in it.
            self._average(keep=min(args.average_decay, (step + 1) / (step + 10)))
        self.epoch += 1
        self.seconds += time.monotonic() - began
        return float(np.mean(losses))

    @torch.no_grad()
    def _average(self, *, keep: float) -> None:
        now = self.model.state_dict()
        for name, mean in self.average.state_dict().items():
            if mean.is_floating_point():
                mean.lerp_(now[name], 1 - keep)


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

    run = Run(args)
    candidates = {"last": run.model, "averaged": run.average}

    def held_out_correct() -> dict[str, int]:
        return {
            name: count_correct(model, images[held_out], labels[held_out])
            for name, model in candidates.items()
        }

    while run.epoch < args.epochs:
        loss = run.train_epoch(padded, labels, training)
        run.save()
        print(
            f"epoch {run.epoch}/{args.epochs}  loss {loss:.4f}  "
            f"held out, of {len(held_out)}: {held_out_correct()}",
            flush=True,
        )

    correct = held_out_correct()
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
        "training_minutes": round(run.seconds / 60, 1),
        "torch": torch.__version__,
    }
    (args.out / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
