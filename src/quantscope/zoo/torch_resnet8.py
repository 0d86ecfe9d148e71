"""ResNet8 as a PyTorch module. The only module of the zoo that needs torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH_NORM_EPSILON = 1e-3  # Keras's default, which the reference was trained with


def same_padding(x: Tensor, *, kernel: int, stride: int) -> Tensor:
    """Pad as Keras's `same` does: what does not divide evenly goes to the bottom and right."""
    total = max(kernel - stride, 0)
    before = total // 2
    return functional.pad(x, (before, total - before, before, total - before)) if total else x


class Convolution(nn.Conv2d):
    """A convolution with Keras's `same` padding; ONNX states that padding as `pads`."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, bias: bool):
        # Where `same` is symmetric the convolution pads by itself, so that no Pad node appears.
        symmetric = (kernel - stride) % 2 == 0 and kernel >= stride
        padding = (kernel - stride) // 2 if symmetric else 0
        super().__init__(channels_in, channels_out, kernel, stride, padding, bias=bias)
        self.pads_itself = symmetric

    def forward(self, x: Tensor) -> Tensor:
        if not self.pads_itself:
            x = same_padding(x, kernel=self.kernel_size[0], stride=self.stride[0])
        return super().forward(x)


def _norm(channels: int, batch_norm: bool) -> nn.Module:
    return nn.BatchNorm2d(channels, eps=BATCH_NORM_EPSILON) if batch_norm else nn.Identity()


class Stack(nn.Module):
    """Two convolutions and what they are added to: the input, or its 1x1 projection."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, batch_norm: bool):
        super().__init__()
        self.conv1 = Convolution(channels_in, channels_out, 3, stride, bias=not batch_norm)
        self.norm1 = _norm(channels_out, batch_norm)
        self.relu1 = nn.ReLU()
        self.conv2 = Convolution(channels_out, channels_out, 3, 1, bias=not batch_norm)
        self.norm2 = _norm(channels_out, batch_norm)
        # The reference has no batch norm here, so this bias stays in both forms.
        self.shortcut = (
            Convolution(channels_in, channels_out, 1, stride, bias=True)
            if stride != 1
            else nn.Identity()
        )
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        out: Tensor = self.relu2(self.shortcut(x) + y)
        return out


class ResNet8(nn.Module):
    """The MLPerf Tiny image classifier: [N,3,32,32] raw pixels 0..255 in, [N,10] logits out.

    With `batch_norm` it is the form that is trained; without, batch norm is folded into the
    convolutions, which is the form that is bundled, exported and quantized.
    """

    def __init__(self, *, batch_norm: bool = False):
        super().__init__()
        self.stem = Convolution(3, 16, 3, 1, bias=not batch_norm)
        self.stem_norm = _norm(16, batch_norm)
        self.stem_relu = nn.ReLU()
        self.stack1 = Stack(16, 16, 1, batch_norm)
        self.stack2 = Stack(16, 32, 2, batch_norm)
        self.stack3 = Stack(32, 64, 2, batch_norm)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem_relu(self.stem_norm(self.stem(x)))
        x = self.stack3(self.stack2(self.stack1(x)))
        logits: Tensor = self.head(torch.flatten(self.pool(x), 1))
        return logits


def fold_batch_norm(model: ResNet8) -> ResNet8:
    """Give the same function without batch norm: each is folded into the convolution before it."""
    folded = ResNet8(batch_norm=False)
    pairs = [("stem", "stem_norm")]
    pairs += [(f"stack{s}.conv{c}", f"stack{s}.norm{c}") for s in (1, 2, 3) for c in (1, 2)]
    state = {
        name: value
        for name, value in model.state_dict().items()
        if name.startswith("head.") or ".shortcut." in name
    }
    for conv_name, norm_name in pairs:
        norm = model.get_submodule(norm_name)
        weight = model.get_parameter(f"{conv_name}.weight").detach().double()
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None and norm.running_mean is not None
        factor = norm.weight.detach().double() / torch.sqrt(norm.running_var.double() + norm.eps)
        state[f"{conv_name}.weight"] = (weight * factor[:, None, None, None]).float()
        state[f"{conv_name}.bias"] = (norm.bias - norm.running_mean.double() * factor).float()
    folded.load_state_dict(state)
    return folded.eval()
