#!/bin/sh
# Compiles every kernel here to PTX, or only those that are named: go generate ./cuda/kernels. CLANG names another clang 19, OUT
# another folder for the results.
set -e
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- *.cu
for file; do
	name=${file%.cu}
	# Quantizers have to agree with other machines to the bit: nothing is fused that they do not fuse.
	contract=on
	[ "$name" != quantize ] || contract=off
	"${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx78 \
		-std=c++20 -Wall -Wextra -Werror -Wno-unused-function -ffp-contract=$contract -O3 -gline-tables-only -ffile-prefix-map="$PWD"=. \
		-S "$name.cu" -o "${OUT:-.}/$name.ptx"
done
