#include "onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

struct gt_engine {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_attr_t attr; // the scratchpad is ours to place
	int block;
};

enum { OPERANDS = GT_SCRATCHPAD + 1 };

struct gt_primitive {
	gt_engine *e;
	dnnl_primitive_desc_t pd;
	dnnl_primitive_t primitive;
	int n;
	dnnl_exec_arg_t args[OPERANDS];
};

static const struct { int arg; dnnl_query_t query; } operands[OPERANDS] = {
	[GT_SRC] = {DNNL_ARG_SRC, dnnl_query_src_md},
	[GT_WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
	[GT_BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md},
	[GT_DST] = {DNNL_ARG_DST, dnnl_query_dst_md},
	[GT_DIFF_SRC] = {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
	[GT_DIFF_WEIGHTS] = {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md},
	[GT_DIFF_BIAS] = {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md},
	[GT_DIFF_DST] = {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
	[GT_WORKSPACE] = {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md},
	[GT_SCRATCHPAD] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md},
};

#define TRY(call) do { dnnl_status_t status_ = (call); if (status_ != dnnl_success) return status_; } while (0)

// Memory descriptors: values in version 2, objects in version 3. A slot holds one until the primitive is there.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t slot;
typedef const_dnnl_memory_desc_t layout;
static layout of(const slot *s) { return *s; }
static int describe(slot *s, int nd, const dnnl_dims_t dims, dnnl_data_type_t t, dnnl_format_tag_t tag) {
	return dnnl_memory_desc_create_with_tag(s, nd, dims, t, tag);
}
static void forget(slot *s) { if (*s) dnnl_memory_desc_destroy(*s); }
#define SLOT NULL
#else
typedef dnnl_memory_desc_t slot;
typedef const dnnl_memory_desc_t *layout;
static layout of(const slot *s) { return s; }
static int describe(slot *s, int nd, const dnnl_dims_t dims, dnnl_data_type_t t, dnnl_format_tag_t tag) {
	return dnnl_memory_desc_init_by_tag(s, nd, dims, t, tag);
}
static void forget(slot *s) { (void)s; }
#define SLOT {0}
#endif

int gt_engine_create(gt_engine **out, int block) {
	gt_engine *e = *out = calloc(1, sizeof *e);
	if (!e) return dnnl_out_of_memory;
	e->block = block;
	TRY(dnnl_engine_create(&e->engine, dnnl_cpu, 0));
	TRY(dnnl_stream_create(&e->stream, e->engine, dnnl_stream_default_flags));
	TRY(dnnl_primitive_attr_create(&e->attr));
	return dnnl_primitive_attr_set_scratchpad_mode(e->attr, dnnl_scratchpad_mode_user);
}

void gt_engine_destroy(gt_engine *e) {
	if (!e) return;
	if (e->attr) dnnl_primitive_attr_destroy(e->attr);
	if (e->stream) dnnl_stream_destroy(e->stream);
	if (e->engine) dnnl_engine_destroy(e->engine);
	free(e);
}

// Makes the primitive of a descriptor and takes the descriptor over.
static int finish(gt_engine *e, dnnl_primitive_desc_t pd, gt_primitive **out) {
	gt_primitive *p = calloc(1, sizeof *p);
	dnnl_status_t s = p ? dnnl_primitive_create(&p->primitive, pd) : dnnl_out_of_memory;
	if (s != dnnl_success) {
		dnnl_primitive_desc_destroy(pd);
		free(p);
		return s;
	}
	p->e = e, p->pd = pd;
	*out = p;
	return dnnl_success;
}

static int activation(gt_engine *e, slot *s, int n, int c, int h, int w, int bf16) {
	dnnl_dims_t dims = {n, c, h, w};
	return describe(s, 4, dims, bf16 ? dnnl_bf16 : dnnl_f32, e->block == 16 ? dnnl_nChw16c : dnnl_nChw8c);
}

static int source(gt_engine *e, slot *s, gt_window w) {
	dnnl_dims_t dims = {w.n, w.c, w.h, w.w};
	if (w.plain) return describe(s, 4, dims, w.bf16 ? dnnl_bf16 : dnnl_f32, dnnl_nchw);
	return activation(e, s, w.n, w.c, w.h, w.w, w.bf16);
}

static int weights(slot *s, gt_window w, int bf16, dnnl_format_tag_t tag) {
	dnnl_dims_t dims = {w.c_out, w.c, w.kernel, w.kernel};
	return describe(s, 4, dims, bf16 ? dnnl_bf16 : dnnl_f32, tag);
}

static int side(int extent, gt_window w) { return (extent + 2 * w.pad - w.kernel) / w.stride + 1; }

typedef struct { dnnl_dims_t strides, kernel, none, pad; } windows;

static windows of_window(gt_window w) {
	return (windows){{w.stride, w.stride}, {w.kernel, w.kernel}, {0, 0}, {w.pad, w.pad}};
}

static int convolution_desc(gt_engine *e, int what, gt_window w, layout src, layout wei, layout dwei, layout dst,
	dnnl_primitive_desc_t *fwd, dnnl_primitive_desc_t *pd) {
	windows v = of_window(w);
	dnnl_alg_kind_t alg = dnnl_convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
	TRY(dnnl_convolution_forward_primitive_desc_create(fwd, e->engine, dnnl_forward_training, alg, src, wei, NULL, dst,
		v.strides, v.none, v.pad, v.pad, e->attr));
	if (what == GT_BACKWARD_DATA)
		return dnnl_convolution_backward_data_primitive_desc_create(pd, e->engine, alg, src, wei, dst, v.strides, v.none,
			v.pad, v.pad, *fwd, e->attr);
	if (what == GT_BACKWARD_WEIGHTS)
		return dnnl_convolution_backward_weights_primitive_desc_create(pd, e->engine, alg, src, dwei, NULL, dst, v.strides,
			v.none, v.pad, v.pad, *fwd, e->attr);
#else
	dnnl_convolution_desc_t d;
	TRY(dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, alg, src, wei, NULL, dst, v.strides, v.pad, v.pad));
	TRY(dnnl_primitive_desc_create(fwd, &d, e->attr, e->engine, NULL));
	if (what == GT_BACKWARD_DATA) {
		TRY(dnnl_convolution_backward_data_desc_init(&d, alg, src, wei, dst, v.strides, v.pad, v.pad));
		return dnnl_primitive_desc_create(pd, &d, e->attr, e->engine, *fwd);
	}
	if (what == GT_BACKWARD_WEIGHTS) {
		TRY(dnnl_convolution_backward_weights_desc_init(&d, alg, src, dwei, NULL, dst, v.strides, v.pad, v.pad));
		return dnnl_primitive_desc_create(pd, &d, e->attr, e->engine, *fwd);
	}
#endif
	*pd = *fwd, *fwd = NULL;
	return dnnl_success;
}

int gt_convolution(gt_engine *e, int what, gt_window w, gt_primitive **p) {
	slot src = SLOT, wei = SLOT, dwei = SLOT, dst = SLOT;
	dnnl_primitive_desc_t fwd = NULL, pd = NULL;
	int s = source(e, &src, w);
	if (!s) s = activation(e, &dst, w.n, w.c_out, side(w.h, w), side(w.w, w), w.bf16 && what != GT_FORWARD);
	if (!s) s = weights(&wei, w, w.bf16, dnnl_format_tag_any);
	if (!s) s = weights(&dwei, w, 0, dnnl_format_tag_any);
	if (!s) s = convolution_desc(e, what, w, of(&src), of(&wei), of(&dwei), of(&dst), &fwd, &pd);
	if (!s) s = finish(e, pd, p);
	if (fwd) dnnl_primitive_desc_destroy(fwd);
	forget(&src), forget(&wei), forget(&dwei), forget(&dst);
	return s;
}

static int maxpool_desc(gt_engine *e, int what, gt_window w, int training, layout src, layout dst,
	dnnl_primitive_desc_t *fwd, dnnl_primitive_desc_t *pd) {
	windows v = of_window(w);
	dnnl_prop_kind_t prop = training ? dnnl_forward_training : dnnl_forward_inference;
	dnnl_alg_kind_t alg = dnnl_pooling_max;
#if DNNL_VERSION_MAJOR >= 3
	TRY(dnnl_pooling_forward_primitive_desc_create(fwd, e->engine, prop, alg, src, dst, v.strides, v.kernel, v.none, v.pad,
		v.pad, e->attr));
	if (what == GT_BACKWARD_DATA)
		return dnnl_pooling_backward_primitive_desc_create(pd, e->engine, alg, src, dst, v.strides, v.kernel, v.none, v.pad,
			v.pad, *fwd, e->attr);
#else
	dnnl_pooling_desc_t d;
	TRY(dnnl_pooling_forward_desc_init(&d, prop, alg, src, dst, v.strides, v.kernel, v.pad, v.pad));
	TRY(dnnl_primitive_desc_create(fwd, &d, e->attr, e->engine, NULL));
	if (what == GT_BACKWARD_DATA) {
		TRY(dnnl_pooling_backward_desc_init(&d, alg, src, dst, v.strides, v.kernel, v.pad, v.pad));
		return dnnl_primitive_desc_create(pd, &d, e->attr, e->engine, *fwd);
	}
#endif
	*pd = *fwd, *fwd = NULL;
	return dnnl_success;
}

int gt_maxpool(gt_engine *e, int what, gt_window w, int training, gt_primitive **p) {
	slot src = SLOT, dst = SLOT;
	dnnl_primitive_desc_t fwd = NULL, pd = NULL;
	int s = source(e, &src, w);
	if (!s) s = activation(e, &dst, w.n, w.c, side(w.h, w), side(w.w, w), w.bf16);
	if (!s) s = maxpool_desc(e, what, w, training, of(&src), of(&dst), &fwd, &pd);
	if (!s) s = finish(e, pd, p);
	if (fwd) dnnl_primitive_desc_destroy(fwd);
	forget(&src), forget(&dst);
	return s;
}

static int dense_desc(gt_engine *e, int what, layout src, layout wei, layout bias, layout dst, dnnl_primitive_desc_t *fwd,
	dnnl_primitive_desc_t *pd) {
#if DNNL_VERSION_MAJOR >= 3
	TRY(dnnl_inner_product_forward_primitive_desc_create(fwd, e->engine, dnnl_forward_training, src, wei, bias, dst, e->attr));
	if (what == GT_BACKWARD_DATA)
		return dnnl_inner_product_backward_data_primitive_desc_create(pd, e->engine, src, wei, dst, *fwd, e->attr);
	if (what == GT_BACKWARD_WEIGHTS)
		return dnnl_inner_product_backward_weights_primitive_desc_create(pd, e->engine, src, wei, bias, dst, *fwd, e->attr);
#else
	dnnl_inner_product_desc_t d;
	TRY(dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, src, wei, bias, dst));
	TRY(dnnl_primitive_desc_create(fwd, &d, e->attr, e->engine, NULL));
	if (what == GT_BACKWARD_DATA) {
		TRY(dnnl_inner_product_backward_data_desc_init(&d, src, wei, dst));
		return dnnl_primitive_desc_create(pd, &d, e->attr, e->engine, *fwd);
	}
	if (what == GT_BACKWARD_WEIGHTS) {
		TRY(dnnl_inner_product_backward_weights_desc_init(&d, src, wei, bias, dst));
		return dnnl_primitive_desc_create(pd, &d, e->attr, e->engine, *fwd);
	}
#endif
	*pd = *fwd, *fwd = NULL;
	return dnnl_success;
}

int gt_dense(gt_engine *e, int what, int n, int in, int out, gt_primitive **p) {
	slot src = SLOT, wei = SLOT, bias = SLOT, dst = SLOT;
	dnnl_primitive_desc_t fwd = NULL, pd = NULL;
	dnnl_dims_t ds = {n, in}, dw = {out, in}, db = {out}, dd = {n, out};
	int s = describe(&src, 2, ds, dnnl_f32, dnnl_ab);
	if (!s) s = describe(&wei, 2, dw, dnnl_f32, dnnl_ab);
	if (!s) s = describe(&bias, 1, db, dnnl_f32, dnnl_a);
	if (!s) s = describe(&dst, 2, dd, dnnl_f32, dnnl_ab);
	if (!s) s = dense_desc(e, what, of(&src), of(&wei), of(&bias), of(&dst), &fwd, &pd);
	if (!s) s = finish(e, pd, p);
	if (fwd) dnnl_primitive_desc_destroy(fwd);
	forget(&src), forget(&wei), forget(&bias), forget(&dst);
	return s;
}

static int reorder(gt_engine *e, layout from, layout to, gt_primitive **p) {
	dnnl_primitive_desc_t pd = NULL;
	TRY(dnnl_reorder_primitive_desc_create(&pd, from, e->engine, to, e->engine, e->attr));
	return finish(e, pd, p);
}

int gt_cast(gt_engine *e, gt_window w, int result, int from, int to, gt_primitive **p) {
	slot a = SLOT, b = SLOT;
	gt_window wa = w, wb = w;
	wa.bf16 = from, wb.bf16 = to;
	int s = result ? activation(e, &a, w.n, w.c_out, side(w.h, w), side(w.w, w), from) : source(e, &a, wa);
	if (!s) s = result ? activation(e, &b, w.n, w.c_out, side(w.h, w), side(w.w, w), to) : source(e, &b, wb);
	if (!s) s = reorder(e, of(&a), of(&b), p);
	forget(&a), forget(&b);
	return s;
}

int gt_weights_reorder(gt_engine *e, gt_primitive *conv, gt_window w, int back, gt_primitive **p) {
	slot plain = SLOT;
	*p = NULL;
	int s = weights(&plain, w, 0, dnnl_oihw);
	layout liked = dnnl_primitive_desc_query_md(conv->pd, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
	if (!s && !dnnl_memory_desc_equal(of(&plain), liked))
		s = back ? reorder(e, liked, of(&plain), p) : reorder(e, of(&plain), liked, p);
	forget(&plain);
	return s;
}

// The layout of an operand as the primitive wants it; a bias is the second of the weights.
static layout operand_layout(gt_primitive *p, int operand) {
	return dnnl_primitive_desc_query_md(p->pd, operands[operand].query, operand == GT_BIAS || operand == GT_DIFF_BIAS);
}

size_t gt_primitive_bytes(gt_primitive *p, int operand) {
	layout l = operand_layout(p, operand);
	return l ? dnnl_memory_desc_get_size(l) : 0;
}

int gt_primitive_bind(gt_primitive *p, int operand, void *memory) {
	dnnl_memory_t m;
	TRY(dnnl_memory_create(&m, operand_layout(p, operand), p->e->engine, memory));
	p->args[p->n].arg = operands[operand].arg;
	p->args[p->n++].memory = m;
	return dnnl_success;
}

void gt_primitive_run(const void *args) {
	const gt_primitive *p = args;
	dnnl_status_t s = dnnl_primitive_execute(p->primitive, p->e->stream, p->n, p->args);
	if (s != dnnl_success) {
		// Every operand was bound when the program was made: what is left is a broken library.
		fprintf(stderr, "gotrain: oneDNN could not run a prepared primitive (status %d)\n", (int)s);
		abort();
	}
}

void gt_primitive_destroy(gt_primitive *p) {
	if (!p) return;
	for (int i = 0; i < p->n; i++) dnnl_memory_destroy(p->args[i].memory);
	dnnl_primitive_destroy(p->primitive);
	dnnl_primitive_desc_destroy(p->pd);
	free(p);
}

const char *gt_dnnl_version(void) {
	static char text[32];
	const dnnl_version_t *v = dnnl_version();
	snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
	return text;
}

const char *gt_dnnl_isa(void) {
	switch ((unsigned)dnnl_get_effective_cpu_isa()) {
	case dnnl_cpu_isa_sse41: return "SSE4.1";
	case dnnl_cpu_isa_avx: return "AVX";
	case dnnl_cpu_isa_avx2: return "AVX2";
	case dnnl_cpu_isa_avx512_core: return "AVX-512";
	case dnnl_cpu_isa_avx512_core_vnni: return "AVX-512 VNNI";
	case dnnl_cpu_isa_avx512_core_bf16: return "AVX-512 BF16";
	case dnnl_cpu_isa_avx512_core_amx: return "AMX";
	default: return "another one";
	}
}
