#!/usr/bin/env python3
"""Chapter 05's program in real PyTorch: DistributedDataParallel over Gloo, one process for each rank, started by this script.

Takes reference.py's options and --nproc N. Writes the mean loss over the ranks of every step (--loss-csv).
"""
import multiprocessing
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from reference import MODELS, load_split, parse_options, write_whole


def train(rank, world_size, port, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world_size))
    os.environ["USE_LIBUV"] = "0"  # Debian's PyTorch 2.6 is built without it, and asks for it all the same
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(options.seed)
    network = MODELS[options.model](not options.no_dropout)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    images, labels = load_split(options.data, "train", torch.float32)
    sampler = DistributedSampler(range(len(labels)), world_size, rank, shuffle=not options.no_shuffle)
    loader = DataLoader(range(len(labels)), batch_size=options.batch_size, sampler=sampler)
    losses = []
    for epoch in range(options.epochs):
        if not options.no_set_epoch:
            sampler.set_epoch(epoch)
        for indices in loader:
            optimizer.zero_grad()
            loss = network.loss(model(images[indices]), labels[indices])
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / world_size)
            if 0 < options.max_steps <= len(losses):
                break
        if 0 < options.max_steps <= len(losses):
            break
    if rank == 0 and options.loss_csv:
        write_whole(options.loss_csv, "step,loss\n" + "".join(f"{i},{loss:.9g}\n" for i, loss in enumerate(losses, 1)))
    dist.destroy_process_group()


def main(arguments):
    at = arguments.index("--nproc")
    world_size = int(arguments[at + 1])
    options = parse_options(arguments[:at] + arguments[at + 2:])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=train, args=(rank, world_size, port, options), daemon=True) for rank in range(world_size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(timeout=300)
    sys.exit(0 if all(rank.exitcode == 0 for rank in ranks) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
