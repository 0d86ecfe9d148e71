"""Small networks of many kinds as PyTorch modules, with example inputs; random weights."""

import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from quantscope.data import Samples

Example = tuple[torch.Tensor, ...]


class SqueezeExcite(nn.Module):
    """A depthwise-separable block with SiLU, HardSwish and squeeze-excite, on odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(12)
        self.deep = nn.Conv2d(12, 12, 5, 1, 2, groups=12)
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.point = nn.Conv2d(12, 20, 1)
        self.head = nn.Linear(20, 7)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.bn(self.stem(image)))
        y = F.hardswish(self.deep(x))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        x = x + y * gate
        return self.head(F.hardswish(self.point(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 1, 1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out1, self.out2 = nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = F.relu(self.down1(x))
        two = F.relu(self.down2(F.max_pool2d(one, 2)))
        return self.out2(F.relu(self.out1(torch.cat([self.up(two), one], 1))))


class Detector(nn.Module):
    """Three scales, upsampled and joined; a dictionary with a list in it as output."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.Conv2d(16, 16, 3, 2, 1),
        )
        self.boxes = nn.ModuleList(nn.Conv2d(n, 6, 1) for n in (40, 32, 16))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        a = F.silu(self.a(x))
        b = F.silu(self.b(a))
        c = F.silu(self.c(b))
        b2 = torch.cat([F.interpolate(c, scale_factor=2.0, mode="nearest"), b], 1)
        a2 = torch.cat(
            [F.interpolate(b2, scale_factor=2.0, mode="bilinear", align_corners=False), a], 1
        )
        scales = [head(v) for head, v in zip(self.boxes, (a2, b2, c), strict=True)]
        flat = torch.cat([v.flatten(2) for v in scales], 2).transpose(1, 2)
        box, score = flat.split([4, 2], 2)
        return {"boxes": box.sigmoid(), "scores": score.softmax(-1), "scales": scales}


class Attention(nn.Module):
    """Text with three integer inputs: embeddings, attention, LayerNorm, Gelu, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (
            nn.Embedding(50, 24),
            nn.Embedding(9, 24),
            nn.Embedding(2, 24),
        )
        self.norm = nn.LayerNorm(24)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.wide, self.narrow = nn.Linear(24, 48), nn.Linear(48, 24)
        self.norm2 = nn.LayerNorm(24)
        self.back = nn.Linear(24, 50, bias=False)
        self.back.weight = self.words.weight
        self.register_buffer("order", torch.arange(9))

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm(self.words(ids) + self.places(self.order) + self.kinds(kinds))
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        allowed = mask.bool()[:, None, None, :]
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = self.norm2(x + self.out(a.transpose(1, 2).flatten(2)))
        x = x + self.narrow(F.gelu(self.wide(x)))
        return self.back(x), x[:, 0].tanh()


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.rnn = kind(8, 6, num_layers=2, batch_first=True)  # type: ignore[call-arg]
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, state = self.rnn(F.relu(self.embed(x)))
        last = state[0] if isinstance(state, tuple) else state
        return self.head(found[:, -1]), last.transpose(0, 1)


class StepGru(nn.Module):
    """A cell with a state input, as speech detectors have it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.state_part = nn.Linear(5, 18), nn.Linear(6, 18)
        self.head = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        r1, z1, n1 = self.inside(x).chunk(3, -1)
        r2, z2, n2 = self.state_part(h).chunk(3, -1)
        r, z = torch.sigmoid(r1 + r2), torch.sigmoid(z1 + z2)
        n = torch.tanh(n1 + r * n2)
        h = (1 - z) * n + z * h
        return torch.sigmoid(self.head(h)), h


class Bytes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(256, 16)
        self.conv, self.head = nn.Conv1d(16, 24, 3, padding=1), nn.Linear(24, 5)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.table(text).transpose(1, 2)
        return self.head(F.relu(self.conv(x)).amax(-1)).softmax(-1)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(40, 16), nn.ReLU(), nn.Linear(16, 4), nn.Linear(4, 16), nn.LeakyReLU(0.1),
            nn.Linear(16, 40),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Bottleneck(nn.Module):
    def __init__(self, given: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(given, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = (
            nn.Conv2d(inner, inner * 4, 1, bias=False),
            nn.BatchNorm2d(inner * 4),
        )
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(given, inner * 4, 1, stride, bias=False), nn.BatchNorm2d(inner * 4)
            )
            if stride != 1 or given != inner * 4
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """torchvision's ResNet with bottlenecks: ResNet50 with `width` 64 and `depths` 3, 4, 6, 3."""

    def __init__(self, width: int = 8, depths: tuple[int, ...] = (1, 2), classes: int = 11) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        given, layers = width, []
        for at, depth in enumerate(depths):
            inner = width << at
            blocks = []
            for index in range(depth):
                blocks.append(Bottleneck(given, inner, 2 if at and index == 0 else 1))
                given = inner * 4
            layers.append(nn.Sequential(*blocks))
        self.layers = nn.Sequential(*layers)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(given, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _ids(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, dtype=dtype)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Example]]] = {
    "squeeze-excite": (SqueezeExcite, lambda n: (torch.randn(n, 3, 22, 18),)),
    "u-net": (UNet, lambda n: (torch.randn(n, 1, 16, 12),)),
    "detector": (Detector, lambda n: (torch.randn(n, 3, 32, 48),)),
    "encoder-layers": (Encoder, lambda n: (torch.randn(n, 7, 16),)),
    "attention": (
        Attention,
        lambda n: (_ids(50, n, 9), torch.ones(n, 9, dtype=torch.int64), _ids(2, n, 9)),
    ),
    "gru": (lambda: Recurrent(nn.GRU), lambda n: (torch.randn(n, 4, 5),)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda n: (torch.randn(n, 4, 5),)),
    "gru-step": (StepGru, lambda n: (torch.randn(n, 5), torch.randn(n, 6))),
    "bytes": (Bytes, lambda n: (_ids(256, n, 30, dtype=torch.int32),)),
    "autoencoder": (Autoencoder, lambda n: (torch.randn(n, 40),)),
    "resnet": (ResNet, lambda n: (torch.randn(n, 3, 40, 40),)),
}


def make(name: str) -> tuple[nn.Module, Example]:
    """Give a network of this name with an example of two rows, the same at every call."""
    torch.manual_seed(0)
    build, example = NETWORKS[name]
    module = build().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            part.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return module, example(2)


def save(name: str, path: Path, *, dynamic: bool = True) -> Path:
    """Export and save it float, as a person does; exported once, for that takes a second."""
    path.write_bytes(_exported(name, dynamic=dynamic))
    return path


@functools.cache
def _exported(name: str, *, dynamic: bool) -> bytes:
    module, example = make(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.pt2"
        return save_module(module, example, path, dynamic=dynamic).read_bytes()


def save_module(module: nn.Module, example: Example, path: Path, *, dynamic: bool = True) -> Path:
    shapes = tuple({0: torch.export.Dim("batch", min=1)} for _ in example) if dynamic else None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, on the weights of GRU and LSTM
        torch.export.save(torch.export.export(module, example, dynamic_shapes=shapes), path)
    return path


def rows_for(name: str, count: int, input_names: tuple[str, ...]) -> Samples:
    """Make rows for the network's inputs, by these names."""
    torch.manual_seed(1)
    arrays = {
        port: value.numpy()
        for port, value in zip(input_names, NETWORKS[name][1](count), strict=True)
    }
    targets = np.zeros(count, np.int64)
    return Samples(f"{name}.npz", arrays, targets, np.arange(count), ("any",), "as-is")
