# make demo   sets up this machine, builds, and trains a small network on pictures that are in the binary
# make test   sets up this machine and runs every test
#
# A target does what it needs beforehand: nobody has to run setup or build by hand.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The version comes from here and not from go build, which refuses where git distrusts the folder's owner.
BUILD   := go build -buildvcs=false -ldflags '-X main.version=$(VERSION)'

.PHONY: setup build demo test bench lint clean

build: setup
	$(BUILD) -o bin/gotrain ./cmd/gotrain

setup:
	@tools/setup.sh

demo: build
	bin/gotrain -config quickstart name=demo -restart

test: setup
	go vet ./...
	go test ./...

# Measures on an otherwise idle machine. COUNT, ROUNDS, EPOCHS and SAMPLES make it longer or shorter.
bench: build
	tools/bench.sh

lint: setup
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt -w $$files"; exit 1; fi
	go vet ./...
	@if command -v staticcheck >/dev/null; then staticcheck ./...; else \
		echo "staticcheck is not installed, and was not run: go install honnef.co/go/tools/cmd/staticcheck@latest"; fi

clean:
	rm -rf bin dist
