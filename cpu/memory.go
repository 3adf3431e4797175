package cpu

// #include <stdlib.h>
// #include <string.h>
// #include <sys/mman.h>
//
// // Blocks beyond a few pages are made of large pages: a step walks through some hundred megabytes, more than the TLB reaches
// // with small ones, and small pages that lie badly in physical memory cost a fifth of a step by conflicts in the cache.
// static void *gt_allocate(size_t bytes) {
//     void *p = NULL;
//     size_t large = 2 << 20, align = 64;
//     if (bytes >= 1 << 16) {
//         align = large;
//         bytes = (bytes + large - 1) / large * large;
//     }
//     if (posix_memalign(&p, align, bytes)) return NULL;
//     if (align == large) madvise(p, bytes, MADV_HUGEPAGE);
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
