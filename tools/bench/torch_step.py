"""Trains ResNet-20 of the CIFAR form in PyTorch on the CPU, on one minibatch again and again, and prints the samples per
second of every step: zero the gradients, forward, backward, update. Reading and augmenting are left out, in PyTorch's
favor.

arguments: float32|bfloat16 contiguous|channelsLast batch threads steps
"""
import sys
import time

import torch
from torch.nn.functional import cross_entropy

precision, layout, batch, threads, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
torch.manual_seed(1)
torch.set_num_threads(threads)
model, images, labels = resnet(20), torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
if layout == "channelsLast":
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
warm_up = 3
for step in range(warm_up + steps):
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step >= warm_up:
        print(batch / (time.perf_counter() - begin))
