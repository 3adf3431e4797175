#!/bin/sh
# Measures training with several workers on this machine, which should have nothing else to do: on 4 virtual hosts, whose links
# it makes as slow as wanted, and in one process; beside PyTorch where a Python has it. It needs root, iproute2 and Open MPI
# (tools/setup.sh mpi ip). Where everything is measured, it writes the tables in docs/performance.md and docs/onebit.md, and the
# pictures that they show; what is cut short by RATES, SETTINGS or DEPTHS it prints alone.
#
#   LIMIT     after how much time no further measurement is begun (11m)
#   ROUNDS    how often everything takes its turn at most; the first round has all, later ones what is to be precise first (3)
#   RATES     of links, as tc writes them (none 1gbit 100mbit 10mbit), and local for all workers in one process
#   SETTINGS  32, 1 or other numbers of bits, auto, blocking (32 bits without overlap), cntk (as CNTK does it), 1-columns,
#             1-tensors and 1-late (what that is made of), and of PyTorch torch and torch-fp16 (all but other numbers of bits)
#   SAMPLES   of an epoch; fewer where links are so slow that an epoch would take long (1920)
#   DEPTHS    of networks (20 110)
#   OUT       the file of results (bin/bench-distributed.json); FROM=FILE writes tables from such a file, and measures nothing
#   PYTHON    the Python that has PyTorch (python3, or else /usr/bin/python3)
#   NETNS_MPI a program that starts hosts and mpiexec in place of our own: NETNS_MPI -n HOSTS -r RATE [-x VAR]... -- PROGRAM ...
set -eu
cd "$(dirname "$0")/.."

load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo 0)
echo "load before: $load (the figures are worth something where it is near 0)"

exec go run ./tools/benchdist -gotrain bin/gotrain -load "$load" -python "$(tools/torch_python.sh)" -network "${NETNS_MPI:-}" \
	-limit "${LIMIT:-11m}" -rounds "${ROUNDS:-3}" -samples "${SAMPLES:-1920}" -rates "${RATES:-}" -settings "${SETTINGS:-}" \
	-depths "${DEPTHS:-}" -out "${OUT:-bin/bench-distributed.json}" -from "${FROM:-}"
