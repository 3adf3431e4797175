"""Trains ResNet-20 of the CIFAR form in PyTorch on a GPU, on one minibatch again and again, and prints the samples per second
of whole steps: zero the gradients, forward, backward, update. Reading and augmenting are left out, in PyTorch's favor.

arguments: float32|tf32|bfloat16 eager|compiled|graphs batch seconds
"""
import sys
import time

import torch
from torch.nn.functional import cross_entropy

precision, mode, batch, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
torch.manual_seed(1)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
device = torch.device("cuda")
model = resnet(20).to(device, memory_format=torch.channels_last)
images = torch.randn(batch, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (batch,), device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, foreach=True)
net = torch.compile(model) if mode == "compiled" else model


def step():
    optimizer.zero_grad(set_to_none=mode != "graphs")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        loss = cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()


aside = torch.cuda.Stream()  # where what is captured later has to have run before
with torch.cuda.stream(aside):
    for _ in range(5):
        step()
torch.cuda.synchronize()
run = step
if mode == "graphs":
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    run = graph.replay

rates, end = [], time.perf_counter() + seconds
while time.perf_counter() < end or len(rates) < 3:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        run()
    torch.cuda.synchronize()
    rates.append(20 * batch / (time.perf_counter() - begin))
rates.sort()
print(rates[len(rates) // 2])
