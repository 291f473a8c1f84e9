"""Article B's training step in PyTorch on this GPU: eager, compiled, as a CUDA graph. Writes seconds a step as JSON.

    python3 pytorch_times.py FILE [STEPS]

Says why and exits 77 where PyTorch or its GPU is missing.
"""
import json
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: this PyTorch finds no GPU")
    sys.exit(77)


class ArticleB(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = torch.flatten(F.dropout2d(x, 0.25, self.training), 1)
        x = F.dropout(F.relu(self.fc1(x)), 0.5, self.training)
        return F.log_softmax(self.fc2(x), 1)


def make_step(mode):
    torch.manual_seed(1)
    model = ArticleB().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    images, labels = torch.rand(64, 1, 28, 28, device="cuda"), torch.randint(10, (64,), device="cuda")
    forward = torch.compile(model) if mode == "compiled" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.nll_loss(forward(images), labels).backward()
        optimizer.step()

    if mode != "graph":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    report = {"torch": torch.__version__, "device": torch.cuda.get_device_name(0)}
    for mode in ("eager", "compiled", "graph"):
        try:
            step = make_step(mode)
            for _ in range(20):
                step()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
            report[mode] = (time.perf_counter() - start) / steps
            print(f"PyTorch {mode}: {report[mode] * 1e6:.0f} us a step")
        except Exception as error:  # one mode that this installation lacks must not hide the others
            report[mode] = None
            print(f"PyTorch {mode}: failed: {str(error).splitlines()[0]}")
    with open(sys.argv[1], "w") as out:
        json.dump(report, out, indent=2)


main()
