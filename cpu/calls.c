#include "calls.h"

void gt_call_relu(const void *p) {
	const gt_simple *c = p;
	c->k->relu(c->a, c->y, c->n, c->threads);
}

void gt_call_relu_backward(const void *p) {
	const gt_simple *c = p;
	c->k->relu_backward(c->a, c->b, c->y, c->n, c->threads);
}

void gt_call_add(const void *p) {
	const gt_simple *c = p;
	c->k->add(c->a, c->b, c->y, c->n, c->threads);
}

void gt_call_subsample(const void *p) {
	const gt_simple *c = p;
	c->k->subsample(c->a, c->y, c->s, c->c_out, c->stride, c->threads);
}

void gt_call_subsample_backward(const void *p) {
	const gt_simple *c = p;
	c->k->subsample_backward(c->a, c->y, c->s, c->c_out, c->stride, c->threads);
}

void gt_call_avgpool(const void *p) {
	const gt_simple *c = p;
	c->k->avgpool(c->a, c->y, c->s, c->threads);
}

void gt_call_avgpool_backward(const void *p) {
	const gt_simple *c = p;
	c->k->avgpool_backward(c->a, c->y, c->s, c->threads);
}

void gt_call_bn_train(const void *p) {
	const gt_batchnorm_call *c = p;
	c->k->bn_train(&c->b);
}

void gt_call_bn_infer(const void *p) {
	const gt_batchnorm_call *c = p;
	c->k->bn_infer(&c->b);
}

void gt_call_bn_backward(const void *p) {
	const gt_batchnorm_call *c = p;
	c->k->bn_backward(&c->b);
}

void gt_call_winograd_forward(const void *p) {
	const gt_winograd_call *c = p;
	c->k->winograd_forward(&c->w);
}

void gt_call_winograd_backward_data(const void *p) {
	const gt_winograd_call *c = p;
	c->k->winograd_backward_data(&c->w);
}

void gt_call_winograd_backward_weights(const void *p) {
	const gt_winograd_call *c = p;
	c->k->winograd_backward_weights(&c->w);
}

void gt_call_strided_weights(const void *p) {
	const gt_strided_call *c = p;
	c->k->strided_weights(&c->s);
}

void gt_call_loss(const void *p) {
	const gt_loss_call *c = p;
	gt_softmax_xent(c->logits, c->labels, c->weight, c->n, c->classes, *c->divisor, c->loss, c->errors, c->dlogits);
}
