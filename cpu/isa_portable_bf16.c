// The kernels for whatever the compiler takes for granted, on bfloat16. Compile with -Wno-psabi: a block is wider than a
// register there, and passing one by value depends on the target, but all functions that do are inlined.
#define ISA portable
#define TYPE bf16
#define BF16 1
#define BLOCK 8
#include "isa_template.h"
