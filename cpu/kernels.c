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

// All tables, the best first.
static const struct {
	const gt_kernels *table;
	int (*supported)(void);
} tables[] = {
#if defined(__x86_64__)
	{&gt_kernels_avx512_f32, has_avx512},
	{&gt_kernels_avx512_bf16_native, has_avx512_bf16},
	{&gt_kernels_avx512_bf16, has_avx512},
	{&gt_kernels_avx2_f32, has_avx2},
	{&gt_kernels_avx2_bf16, has_avx2},
#endif
	{&gt_kernels_portable_f32, always},
	{&gt_kernels_portable_bf16, always},
};

const gt_kernels *gt_kernels_for(const char *isa, int bytes) {
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		const gt_kernels *t = tables[i].table;
		if (t->bytes == bytes && (!isa || !*isa || !strcmp(isa, t->isa)) && tables[i].supported()) return t;
	}
	return NULL;
}
