#!/usr/bin/env python3
"""Records PyTorch's DistributedSampler over many combinations: tests/parity/recorded/distributed_sampler.txt.

Each row: n world rank shuffle drop_last seed epoch length crc32 (of the indices as little-endian int64).
"""
import pathlib
import struct
import zlib

from torch.utils.data.distributed import DistributedSampler


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def main():
    rows = []
    for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 16, 25, 33, 60, 64, 101, 1000):
        for world in (1, 2, 3, 4, 5, 7, 8):
            for rank in range(world):
                for shuffle in (False, True):
                    for drop_last in (False, True):
                        for seed, epoch in ((0, 0), (0, 1), (3, 2), (12345, 7)) if shuffle else ((0, 0),):
                            sampler = DistributedSampler(Sized(n), world, rank, shuffle, seed, drop_last)
                            sampler.set_epoch(epoch)
                            try:
                                order = list(sampler)
                            except (AssertionError, ZeroDivisionError):
                                continue
                            data = struct.pack(f"<{len(order)}q", *order)
                            rows.append((n, world, rank, int(shuffle), int(drop_last), seed, epoch, len(order), zlib.crc32(data)))
    path = pathlib.Path(__file__).parent / "recorded" / "distributed_sampler.txt"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    print(f"{len(rows)} combinations in {path}")


if __name__ == "__main__":
    main()
