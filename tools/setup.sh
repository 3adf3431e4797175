#!/bin/sh
# tools/setup.sh [mpi] [ip] [clang]: installs what a build needs and this machine lacks: a C compiler, and oneDNN with its headers.
# With mpi also Open MPI, with its headers, unless there is an MPI; with ip also iproute2, for tests on several virtual
# hosts; with clang also clang-19, which makes the PTX of the CUDA kernels. Says nothing where everything is there. Knows
# apt-get (Debian 12, Ubuntu 22.04 and newer); elsewhere it says what to install.
set -eu

say() { echo "setup: $*" >&2; }

# Whether the C compiler finds oneDNN as cgo will, header and library.
onednn_found() {
	# CGO_CFLAGS and CGO_LDFLAGS are lists of words.
	# shellcheck disable=SC2086
	printf '#include <oneapi/dnnl/dnnl.h>\nint main(void) { return dnnl_version() == 0; }\n' |
		${CC:-gcc} ${CGO_CFLAGS:-} -x c - -o /dev/null ${CGO_LDFLAGS:-} -ldnnl 2>/dev/null
}

if ! command -v go >/dev/null; then
	say "Go is not installed: get 1.25 or newer from https://go.dev/dl/, and put its bin folder into PATH"
	exit 1
fi

packages=
command -v "${CC:-gcc}" >/dev/null || packages="gcc libc6-dev"
onednn_found || packages="${packages:+$packages }libdnnl-dev"
for extra; do
	case $extra in
	mpi) { command -v "${MPICC:-mpicc}" && command -v mpiexec; } >/dev/null ||
		packages="${packages:+$packages }openmpi-bin libopenmpi-dev" ;;
	ip) command -v ip >/dev/null || packages="${packages:+$packages }iproute2" ;;
	clang) command -v "${CLANG:-clang-19}" >/dev/null || packages="${packages:+$packages }clang-19" ;;
	*) say "knows mpi, ip and clang, not $extra"; exit 2 ;;
	esac
done
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null; then
	say "missing: $packages (the names are Debian's), and there is no apt-get to install them."
	say "Install a C compiler, and oneDNN 2 or 3 with its headers: onednn-devel on Fedora, onednn on Arch Linux, or"
	say "from https://github.com/oneapi-src/oneDNN. Where it lies in a folder of its own, set CGO_CFLAGS=-IDIR/include"
	say "and CGO_LDFLAGS=-LDIR/lib. For several machines, Open MPI or MPICH, with mpicc and mpiexec in PATH."
	exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		say "run this as root, once: apt-get update && apt-get install -y $packages"
		exit 1
	fi
	as_root=sudo
fi

say "installing $packages"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	# shellcheck disable=SC2086
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages >>"$log" 2>&1 </dev/null
}
# The lists of packages may be missing or too old: fetch them only then. One of several sources may be away.
if ! install && ! { $as_root apt-get update >>"$log" 2>&1 </dev/null; install; }; then
	cat "$log" >&2
	say "apt-get did not install $packages: see above"
	exit 1
fi
if ! onednn_found; then
	say "oneDNN is installed, and a C program that uses it still does not build; try:"
	say "    echo '#include <oneapi/dnnl/dnnl.h>' | ${CC:-gcc} -x c -c - -o /dev/null"
	exit 1
fi
