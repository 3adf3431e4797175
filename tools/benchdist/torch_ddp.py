# Trains ResNet-n data-parallel, as PyTorch does it (DistributedDataParallel on gloo), one process on each host, on one
# minibatch again and again, and prints the samples per second of every step. Reading and augmenting are left out, in
# PyTorch's favor. Open MPI starts the processes, and tells them who they are; MASTER_ADDR is the first host.
#
# arguments: depth dense|fp16 batch steps
import os
import sys
import time

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.functional import cross_entropy

depth, hook, batch, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rank, workers = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
print("started", file=sys.stderr, flush=True)
torch.manual_seed(1)
torch.set_num_threads(1)
master = os.environ.get("NETNS_H0") or os.environ["MASTER_ADDR"]
torch.distributed.init_process_group("gloo", init_method=f"tcp://{master}:29500", rank=rank, world_size=workers)
model = torch.nn.parallel.DistributedDataParallel(resnet(depth))
if hook == "fp16":
    model.register_comm_hook(None, fp16_compress_hook)
images, labels = torch.randn(batch // workers, 3, 32, 32), torch.randint(0, 10, (batch // workers,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
warm_up = 2
for step in range(warm_up + steps):
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    cross_entropy(model(images), labels).backward()
    optimizer.step()
    if rank == 0 and step >= warm_up:
        print(batch / (time.perf_counter() - begin), flush=True)
torch.distributed.barrier()
time.sleep(0.5)  # gloo aborts where a process is gone before the others have left the barrier
os._exit(0)  # and where its threads are ended in order
