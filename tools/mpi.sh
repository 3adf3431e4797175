#!/bin/sh
# tools/mpi.sh COMMAND [ARG ...]: runs a go command so that it builds with MPI, where there is one, and else as it is.
#
# It asks mpicc (or $MPICC) for its flags, in the ways of Open MPI and of MPICH, Intel MPI and MVAPICH, tries them, and puts
# them into CGO_CFLAGS and CGO_LDFLAGS, and the build tag mpi into GOFLAGS. MPI=off builds without.
set -eu

mpicc=${MPICC:-mpicc}
cc=${CC:-gcc}

# The flags are lists of words.
# shellcheck disable=SC2086
works() {
	printf '#include <mpi.h>\nint main(void) { int done; return MPI_Initialized(&done); }\n' |
		$cc ${CGO_CFLAGS:-} $1 -x c - -o /dev/null ${CGO_LDFLAGS:-} $2 2>/dev/null
}

# The words of a compiler's command line that begin with one of some letters.
words() { tr ' ' '\n' | grep "^-[$1]" | tr '\n' ' '; }

found=
if [ "${MPI:-}" != off ] && command -v "$mpicc" >/dev/null; then
	if compile=$($mpicc --showme:compile 2>/dev/null) && link=$($mpicc --showme:link 2>/dev/null) && works "$compile" "$link"; then
		found=yes
	elif compile=$($mpicc -compile-info 2>/dev/null | words ID) && link=$($mpicc -link-info 2>/dev/null | words LlW) &&
		works "$compile" "$link"; then
		found=yes
	else
		echo "mpi: $mpicc is there, but a program with its flags does not build: going on without MPI" >&2
	fi
fi
if [ "$found" ]; then
	# Go's own choice of flags where none is set; MPI is loaded only by programs that call it.
	export CGO_CFLAGS="${CGO_CFLAGS--g -O2} $compile"
	export CGO_LDFLAGS="${CGO_LDFLAGS--g -O2} -Wl,--as-needed $link"
	export GOFLAGS="${GOFLAGS:-} -tags=mpi"
fi
exec "$@"
