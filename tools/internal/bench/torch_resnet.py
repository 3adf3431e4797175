"""ResNet-n of the CIFAR form in PyTorch, with projection shortcuts."""
from torch import nn
from torch.nn.functional import relu


def conv(inputs, outputs, kernel, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = conv(inputs, outputs, 3, stride)
        self.second = conv(outputs, outputs, 3, 1)
        self.shortcut = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x):
        return relu(self.second(relu(self.first(x))) + self.shortcut(x))


def resnet(depth):
    layers = [conv(3, 16, 3, 1), nn.ReLU()]
    inputs = 16
    for channels in (16, 32, 64):
        for block in range((depth - 2) // 6):
            layers.append(Residual(inputs, channels, 2 if block == 0 and channels > 16 else 1))
            inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
