package cpu

// #include <stdlib.h>
// #include <string.h>
// #include <sys/mman.h>
//
// static void *gt_allocate(size_t bytes) {
//     void *p = NULL;
//     size_t huge = 2 << 20;
//     if (posix_memalign(&p, bytes >= huge ? huge : 64, bytes)) return NULL;
//     // Large pages: a step walks through some hundred megabytes, more than the TLB reaches with small ones.
//     if (bytes >= huge) madvise(p, bytes, MADV_HUGEPAGE);
//     memset(p, 0, bytes); // now, not in the first step
//     return p;
// }
import "C"

import (
	"fmt"
	"unsafe"
)

// block is C memory: zeroed, aligned to a cache line at least. Pointers into it may be kept by C.
type block struct {
	at    unsafe.Pointer
	bytes int
}

func allocate(bytes int, what string) (block, error) {
	b := block{bytes: bytes, at: C.gt_allocate(C.size_t(max(bytes, 64)))}
	if b.at == nil {
		return b, fmt.Errorf("no memory for %s (%d MiB): lower learner.minibatchSize or distributed.workers", what, bytes>>20)
	}
	return b, nil
}

func (b *block) free() {
	C.free(b.at)
	*b = block{}
}

func (b block) add(bytes int) unsafe.Pointer { return unsafe.Add(b.at, bytes) }

func (b block) floats() []float32 { return unsafe.Slice((*float32)(b.at), b.bytes/4) }
