# make demo   sets up this machine, builds, and trains a small network on pictures that are in the binary
# make test   sets up this machine and runs every test
# make setup-mpi   installs Open MPI, for training on several machines: what is built from then on has it
#
# A target does what it needs beforehand: nobody has to run setup or build by hand.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# With MPI, where mpicc is found; MPI=off builds without.
# The version comes from here and not from go build, which refuses where git distrusts the folder's owner.
BUILD   := tools/mpi.sh go build -buildvcs=false -ldflags '-X main.version=$(VERSION)'

.PHONY: setup setup-mpi build demo test bench bench-distributed lint ptxas setup-ptxas device-bundle device-check clean

build: setup
	$(BUILD) -o bin/gotrain ./cmd/gotrain

setup:
	@tools/setup.sh

setup-mpi:
	@tools/setup.sh mpi

demo: build
	bin/gotrain -config quickstart name=demo -restart

# The program's own tests have the machine to themselves: they end processes that then have seconds to go.
test: setup
	tools/mpi.sh go vet ./...
	tools/mpi.sh go test $$(go list ./... | grep -v /cmd/)
	tools/mpi.sh go test ./cmd/...

# Measures on an otherwise idle machine. COUNT, ROUNDS, EPOCHS and SAMPLES make it longer or shorter.
bench: build
	tools/bench.sh

# The same for 4 workers, on virtual hosts with slow links (as root) and in one process; rewrites the tables in docs/.
bench-distributed:
	@tools/setup.sh mpi ip
	$(BUILD) -o bin/gotrain ./cmd/gotrain
	tools/bench-distributed.sh

# What NVIDIA's assembler makes of the CUDA kernels; rewrites the tables of docs/cuda.md. Where ptxas is not installed, make setup-ptxas
# gets it for this folder, 47 MB, with pip.
ptxas:
	go run ./tools/ptxas

setup-ptxas:
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --upgrade --target .cache/ptxas nvidia-cuda-nvcc

# A folder for a machine with NVIDIA GPUs and nothing else, dist/device, and the same run here on the emulator, in two minutes.
device-bundle: setup
	tools/device-bundle.sh

device-check: device-bundle
	GOTRAIN_CHECK_DEVICE=emulator dist/device/device-check.sh dist/device-report.md

lint: setup
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt -w $$files"; exit 1; fi
	tools/mpi.sh go vet ./...
	@if command -v staticcheck >/dev/null; then tools/mpi.sh staticcheck ./...; else \
		echo "staticcheck is not installed, and was not run: go install honnef.co/go/tools/cmd/staticcheck@latest"; fi

clean:
	rm -rf bin dist
