#!/bin/sh
# Measures training on this machine, which should have nothing else to do: Go's benchmarks of a step, and then whole epochs
# of ResNet-20, beside PyTorch where a Python has it.
#
#   COUNT    repetitions of Go's benchmarks (3)
#   ROUNDS   alternations between gotrain and PyTorch (3)
#   EPOCHS   epochs of each round of gotrain (2)
#   SAMPLES  samples of an epoch; 0: the whole training set (0)
#   PYTHON   the Python that has PyTorch (python3, or else /usr/bin/python3)
#   GOTRAIN_CIFAR10  folder of the CIFAR-10 files; without it, a set of made-up pictures of the same size
set -eu
cd "$(dirname "$0")/.."

load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo 0)
echo "load before: $load (the figures are worth something where it is near 0)"

go test ./cpu -run '^$' -bench . -count "${COUNT:-3}"

exec go run ./tools/bench -gotrain bin/gotrain -python "$(tools/torch_python.sh)" -rounds "${ROUNDS:-3}" -epochs "${EPOCHS:-2}" -samples "${SAMPLES:-0}"
