#include "syncnorm.h"

void gt_call_sync_moments(const void *p) {
	const gt_syncnorm_call *c = p;
	c->k->sync_moments(&c->s);
}

void gt_call_sync_normalize(const void *p) {
	const gt_syncnorm_call *c = p;
	c->k->sync_normalize(&c->s);
}

void gt_call_sync_sums(const void *p) {
	const gt_syncnorm_call *c = p;
	c->k->sync_sums(&c->s);
}

void gt_call_sync_propagate(const void *p) {
	const gt_syncnorm_call *c = p;
	c->k->sync_propagate(&c->s);
}
