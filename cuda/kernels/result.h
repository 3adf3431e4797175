// result.h: what a step leaves for the host, see Result in update.go.
#pragma once
#include "gt.h"

struct result {
	double loss, errors, count; // as they begin a message between workers
	double squares;             // of the norm of the aggregated gradient
	u32 updated;                // 1, or 0 where loss or norm is not finite
	u32 reserved;
};
