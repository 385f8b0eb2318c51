# SPDX-License-Identifier: Apache-2.0
"""The measurements of gpu.c and train.c on a device, by PyTorch.

    gpu_torch.py cuda|cpu [NET...]

Prints `NAME VALUE UNIT` under the same names; "cpu" is for trying it out.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = torch.device(sys.argv[1])
ROUNDS, LARGE, SMALL, EDGE = (20, 64 << 20, 1 << 10, 4096) \
    if DEVICE.type == "cuda" else (2, 1 << 20, 1 << 10, 256)
RATE = 0.0001  # of train.h
WIDTHS = [64, 128, 256, 512]


def wait():
    """Until the device has done everything."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def seconds(run, times):
    """Seconds of one run: the best of some rounds of `times` consecutive
    runs."""
    best = float("inf")
    for _ in range(ROUNDS):
        wait()
        begin = time.perf_counter()
        for _ in range(times):
            run()
        wait()
        best = min(best, (time.perf_counter() - begin) / times)
    return best


def say(name, value, unit):
    """One figure."""
    print(name, f"{value:.4f}", unit, flush=True)


def operators():
    """Copies, element-wise operators, one product."""
    here = torch.zeros(LARGE)
    one, two, out = (torch.zeros(LARGE, device=DEVICE) for _ in range(3))
    size = 4 * LARGE / 1e9
    say("copy.host_to_device", size / seconds(lambda: one.copy_(here), 1), "GB/s")
    say("copy.device_to_host", size / seconds(lambda: here.copy_(one), 1), "GB/s")
    say("copy.on_device", 2 * size / seconds(lambda: two.copy_(one), 10), "GB/s")
    few = [torch.zeros(SMALL, device=DEVICE) for _ in range(3)]
    for name, n, run in (("add", 2, lambda a, b, o: torch.add(a, b, out=o)),
                         ("exp", 1, lambda a, b, o: torch.exp(a, out=o)),
                         ("sigmoid", 1, lambda a, b, o: torch.sigmoid(a, out=o))):
        large = seconds(lambda run=run: run(one, two, out), 10)
        small = seconds(lambda run=run: run(*few), 1000)
        say(f"elemwise.{name}.large", (n + 1) * size / large, "GB/s")
        say(f"elemwise.{name}.small", small * 1e6, "us")
    square = torch.zeros(EDGE, EDGE, device=DEVICE)
    bias = torch.zeros(EDGE, device=DEVICE)
    took = seconds(lambda: F.linear(square, square, bias), 10)
    say("nn.fully_connected.4096", 2 * EDGE ** 3 / took / 1e12, "TFLOP/s")


def mlp():
    """784-512-512-10."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                         nn.ReLU(), nn.Linear(512, 10))


def lenet():
    """LeNet-5 on 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10))


def normal(fan_in, fan_out, kernel, step):
    """A convolution without bias, followed by a batch normalisation."""
    return [nn.Conv2d(fan_in, fan_out, kernel, step, kernel // 2, bias=False),
            nn.BatchNorm2d(fan_out, momentum=0.1)]


class Block(nn.Module):
    """Convolutions with a shortcut around them."""

    def __init__(self, layers, shortcut):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x):
        """relu of the sum."""
        return F.relu(self.layers(x) + self.shortcut(x))


def basic(fan_in, width, step):
    """A block of ResNet-18."""
    return Block([*normal(fan_in, width, 3, step), nn.ReLU(),
                  *normal(width, width, 3, 1)],
                 normal(fan_in, width, 1, step) if step > 1 else [])


def bottle(fan_in, width, step):
    """A block of ResNet-50."""
    wide = 4 * width
    return Block([*normal(fan_in, width, 1, 1), nn.ReLU(),
                  *normal(width, width, 3, step), nn.ReLU(),
                  *normal(width, wide, 1, 1)],
                 normal(fan_in, wide, 1, step) if fan_in != wide else [])


def residual(block, numbers, wider):
    """A net of such blocks on 224 x 224."""
    layers = [*normal(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    fan_in = 64
    for stage, (width, n) in enumerate(zip(WIDTHS, numbers)):
        for i in range(n):
            layers.append(block(fan_in, width, 2 if i == 0 and stage else 1))
            fan_in = wider * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(fan_in, 1000))


NETS = {"mlp": (mlp, [(64, 784), (1, 784)]),
        "lenet": (lenet, [(64, 1, 28, 28)]),
        "resnet": (lambda: residual(basic, [2, 2, 2, 2], 1), [(8, 3, 224, 224)]),
        "resnet50": (lambda: residual(bottle, [3, 4, 6, 3], 4),
                     [(8, 3, 224, 224)])}


def train(name):
    """Steps of a net, eager."""
    build, shapes = NETS[name]
    for shape in shapes:
        net = build().to(DEVICE)
        data = torch.rand(shape, device=DEVICE)
        label = torch.zeros(shape[0], dtype=torch.long, device=DEVICE)
        step = torch.optim.SGD(net.parameters(), lr=RATE)

        def run(net=net, data=data, label=label, step=step):
            step.zero_grad(set_to_none=True)
            F.cross_entropy(net(data), label, reduction="sum").backward()
            step.step()

        run()
        say(f"{name}.step/{shape[0]}", seconds(run, 10) * 1e3, "ms")


def main():
    """All requested measurements."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    operators()
    for name in sys.argv[2:]:
        train(name)


if __name__ == "__main__":
    main()
