// kernels.c picks the table of kernels for a machine.

#include <string.h>

#include "kernels.h"

extern const gt_kernels gt_kernels_portable_f32, gt_kernels_portable_bf16;

#if defined(__x86_64__)

extern const gt_kernels gt_kernels_avx512_f32, gt_kernels_avx512_bf16, gt_kernels_avx512_bf16_native;
extern const gt_kernels gt_kernels_avx2_f32, gt_kernels_avx2_bf16;

static int has_avx512(void) {
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl");
}

static int has_avx512_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#endif

static int always(void) { return 1; }

// All instruction sets, the best first, with their tables for both storage types.
static const struct {
	const char *isa;
	int (*supported)(void);
	const gt_kernels *f32, *bf16;
} sets[] = {
#if defined(__x86_64__)
	{"avx512bf16", has_avx512_bf16, &gt_kernels_avx512_f32, &gt_kernels_avx512_bf16_native},
	{"avx512", has_avx512, &gt_kernels_avx512_f32, &gt_kernels_avx512_bf16},
	{"avx2", has_avx2, &gt_kernels_avx2_f32, &gt_kernels_avx2_bf16},
#endif
	{"portable", always, &gt_kernels_portable_f32, &gt_kernels_portable_bf16},
};

const gt_kernels *gt_kernels_for(const char *isa, int bytes) {
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		if ((!isa || !*isa || !strcmp(isa, sets[i].isa)) && sets[i].supported()) return bytes == 4 ? sets[i].f32 : sets[i].bf16;
	}
	return NULL;
}

const char *gt_kernels_isa(void) {
	size_t i = 0;
	while (!sets[i].supported()) i++;
	return sets[i].isa;
}
