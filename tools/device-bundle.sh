#!/bin/sh
# tools/device-bundle.sh: makes dist/device, a folder that checks gotrain on a machine with NVIDIA GPUs and nothing else: the
# program without MPI, the tests as programs, the libraries that they need, and device-check.sh, which runs them and writes a
# report. GOTRAIN_GOLDEN adds the golden files of that folder to those of the project.
set -eu
cd "$(dirname "$0")/.."
out=dist/device
rm -rf "$out"
mkdir -p "$out/root/lib/glibc" "$out/root/tests/testdata"
say() { echo "device-bundle: $*" >&2; }

version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$version" -o "$out/root/gotrain" ./cmd/gotrain
for package in cuda/kernels cuda pipeline; do
	go test -c -trimpath -ldflags '-s -w' -o "$out/root/tests/$(echo $package | tr / -).test" "./$package"
	[ ! -d "$package/testdata" ] || cp -R "$package/testdata/." "$out/root/tests/testdata/"
done
[ -z "${GOTRAIN_GOLDEN:-}" ] || cp "$GOTRAIN_GOLDEN"/*.safetensors "$out/root/tests/testdata/golden/"
cat tools/internal/bench/torch_resnet.py tools/device/torch_step.py >"$out/root/torch_step.py"

# The C library goes into a folder of its own, with its loader: it is taken only where the machine's is too old.
ldd "$out/root/gotrain" "$out"/root/tests/*.test | sed -n 's/.*[ \t]\(\/[^ ]*\) (0x.*/\1/p' | sort -u | while read -r lib; do
	case $(basename "$lib") in
	ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so*) cp -L "$lib" "$out/root/lib/glibc/" ;;
	*) cp -L "$lib" "$out/root/lib/" ;;
	esac
done
for lib in libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2; do # NVIDIA's driver needs them
	path=$(${CC:-gcc} -print-file-name="$lib")
	[ ! -f "$path" ] || cp -L "$path" "$out/root/lib/glibc/"
done

tar -C "$out/root" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - . | gzip -9n >"$out/root.tar.gz"
rm -r "$out/root"
cp tools/device/device-check.sh "$out/"
size=$(du -sk "$out" | cut -f1)
say "$out: $((size / 1024)) MiB: copy it to a machine with an NVIDIA GPU, and run device-check.sh there"
if [ "$size" -gt 61440 ]; then
	say "more than 60 MiB: leave something out"
	exit 1
fi
