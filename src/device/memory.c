/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The copies. On x86-64 they are written out, for three things that memcpy() does not promise:
 * ascending order with the end last, aligned quantities in one piece, and that a fault's address
 * tells that it was here. The routines keep no stack frame, so their error exit can be entered from
 * any of their instructions.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/memory.h"

/* From where on the string instruction pays: it takes a line that another core has without reading
 * it first. */
enum { MOVE_LONG = 512, MOVE_END = 64 };

/* On some processors (Zen 4) it is 13 to 16 times slower where the target lies further on in its
 * page than the source does, by less than this. */
enum { MOVE_PAGE = 4096, MOVE_BEHIND = 16 };

#ifdef __x86_64__

_Static_assert(EFAULT == 14, "the error exit below returns it");

int memory_load_raw(void *to, const void *from, size_t length);
int memory_store_raw(void *to, const void *from, size_t length);
int memory_fetch_add_raw(void *place, uint64_t add, uint64_t *old);
int memory_compare_swap_raw(void *place, uint64_t compare, uint64_t swap, uint64_t *old);
int memory_store_8_raw(void *place, uint64_t value);
int memory_copy_8_raw(void *to, const void *from);
int memory_move_raw(void *to, const void *from, size_t length);
extern const char memory_touch_begin[], memory_touch_end[], memory_touch_fault[];
extern const char memory_sum_begin[], memory_sum_end[]; /* memory_sum.c */

/*
 * rdi to, rsi from, rdx length. First up to 15 bytes until the program's side (`aligned`) is at a
 * multiple of 16, then 64 and 16 at a time, then the rest by halves: each piece is aligned on that
 * side.
 */
#define COPY(name, aligned)                                                                        \
	".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n"                \
	"	testb $1, " aligned "l\n"                                                          \
	"	jz 2f\n"                                                                                 \
	"	cmpq $1, %rdx\n"                                                                         \
	"	jb 99f\n"                                                                                \
	"	movb (%rsi), %al\n"                                                                      \
	"	movb %al, (%rdi)\n"                                                                      \
	"	addq $1, %rsi\n	addq $1, %rdi\n	subq $1, %rdx\n"                                         \
	"2:	testb $2, " aligned "l\n"                                                          \
	"	jz 4f\n"                                                                                 \
	"	cmpq $2, %rdx\n"                                                                         \
	"	jb 91f\n"                                                                                \
	"	movw (%rsi), %ax\n"                                                                      \
	"	movw %ax, (%rdi)\n"                                                                      \
	"	addq $2, %rsi\n	addq $2, %rdi\n	subq $2, %rdx\n"                                         \
	"4:	testb $4, " aligned "l\n"                                                          \
	"	jz 8f\n"                                                                                 \
	"	cmpq $4, %rdx\n"                                                                         \
	"	jb 92f\n"                                                                                \
	"	movl (%rsi), %eax\n"                                                                     \
	"	movl %eax, (%rdi)\n"                                                                     \
	"	addq $4, %rsi\n	addq $4, %rdi\n	subq $4, %rdx\n"                                         \
	"8:	testb $8, " aligned "l\n"                                                          \
	"	jz 16f\n"                                                                                \
	"	cmpq $8, %rdx\n"                                                                         \
	"	jb 94f\n"                                                                                \
	"	movq (%rsi), %rax\n"                                                                     \
	"	movq %rax, (%rdi)\n"                                                                     \
	"	addq $8, %rsi\n	addq $8, %rdi\n	subq $8, %rdx\n"                                         \
	"16:	subq $64, %rdx\n"                                                                     \
	"	jb 65f\n"                                                                                \
	"64:	movups (%rsi), %xmm0\n"                                                               \
	"	movups 16(%rsi), %xmm1\n"                                                                \
	"	movups 32(%rsi), %xmm2\n"                                                                \
	"	movups 48(%rsi), %xmm3\n"                                                                \
	"	movups %xmm0, (%rdi)\n"                                                                  \
	"	movups %xmm1, 16(%rdi)\n"                                                                \
	"	movups %xmm2, 32(%rdi)\n"                                                                \
	"	movups %xmm3, 48(%rdi)\n"                                                                \
	"	addq $64, %rsi\n	addq $64, %rdi\n	subq $64, %rdx\n"                                      \
	"	jae 64b\n"                                                                               \
	"65:	addq $64, %rdx\n"                                                                     \
	"17:	cmpq $16, %rdx\n"                                                                     \
	"	jb 98f\n"                                                                                \
	"	movups (%rsi), %xmm0\n"                                                                  \
	"	movups %xmm0, (%rdi)\n"                                                                  \
	"	addq $16, %rsi\n	addq $16, %rdi\n	subq $16, %rdx\n"                                      \
	"	jmp 17b\n"                                                                               \
	"98:	testb $8, %dl\n"                                                                      \
	"	jz 94f\n"                                                                                \
	"	movq (%rsi), %rax\n"                                                                     \
	"	movq %rax, (%rdi)\n"                                                                     \
	"	addq $8, %rsi\n	addq $8, %rdi\n"                                                         \
	"94:	testb $4, %dl\n"                                                                      \
	"	jz 92f\n"                                                                                \
	"	movl (%rsi), %eax\n"                                                                     \
	"	movl %eax, (%rdi)\n"                                                                     \
	"	addq $4, %rsi\n	addq $4, %rdi\n"                                                         \
	"92:	testb $2, %dl\n"                                                                      \
	"	jz 91f\n"                                                                                \
	"	movw (%rsi), %ax\n"                                                                      \
	"	movw %ax, (%rdi)\n"                                                                      \
	"	addq $2, %rsi\n	addq $2, %rdi\n"                                                         \
	"91:	testb $1, %dl\n"                                                                      \
	"	jz 99f\n"                                                                                \
	"	movb (%rsi), %al\n"                                                                      \
	"	movb %al, (%rdi)\n"                                                                      \
	"99:	xorl %eax, %eax\n"                                                                    \
	"	ret\n"                                                                                   \
	".size " name ", . - " name "\n"

#define ROUTINE(name, ...)                                                                         \
	".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n" __VA_ARGS__    \
	"	xorl %eax, %eax\n	ret\n.size " name ", . - " name "\n"

__asm__(".pushsection .text\n"
	".balign 64\n"
	".globl memory_touch_begin\n.hidden memory_touch_begin\nmemory_touch_begin:\n" COPY(
	    "memory_load_raw", "%si") ".balign 64\n" COPY("memory_store_raw", "%di")
	    ROUTINE("memory_fetch_add_raw", "	lock xaddq %rsi, (%rdi)\n"
					    "	movq %rsi, (%rdx)\n")
		ROUTINE("memory_compare_swap_raw", "	movq %rsi, %rax\n"
						   "	lock cmpxchgq %rdx, (%rdi)\n"
						   "	movq %rax, (%rcx)\n")
		    ROUTINE("memory_store_8_raw", "	movq %rsi, (%rdi)\n")
			ROUTINE("memory_copy_8_raw",
				"	movq (%rsi), %rax\n	movq %rax, (%rdi)\n")
			    ROUTINE("memory_move_raw",
				    "	movq %rdx, %rcx\n"
				    "	rep movsb\n") ".globl memory_touch_end\n.hidden "
						      "memory_touch_end\nmemory_touch_end:\n"
						      ".globl memory_touch_fault\n.hidden "
						      "memory_touch_fault\nmemory_touch_fault:\n"
						      "	movl $-14, %eax\n"
						      "	ret\n"
						      ".popsection\n");

static bool is_between(uintptr_t pc, const char *begin, const char *end)
{
	return pc >= (uintptr_t)begin && pc < (uintptr_t)end;
}

bool memory_recover(uintptr_t *pc)
{
	if (!is_between(*pc, memory_touch_begin, memory_touch_end) &&
	    !is_between(*pc, memory_sum_begin, memory_sum_end))
		return false;
	*pc = (uintptr_t)memory_touch_fault;
	return true;
}

#else

/* The compiler keeps the order of volatile accesses; the release fences keep the processor's. */
static int copy_whole(volatile char *to, const volatile char *from, size_t length,
		      uintptr_t aligned)
{
	size_t i = 0;

	for (; i < length && (aligned + i) % 8; i++)
		to[i] = from[i];
	if (((uintptr_t)to + i) % 8 == 0 && ((uintptr_t)from + i) % 8 == 0)
		for (; i + 8 <= length; i += 8)
			*(volatile uint64_t *)(to + i) = *(const volatile uint64_t *)(from + i);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (; i < length; i++)
		to[i] = from[i];
	return 0;
}

static int memory_load_raw(void *to, const void *from, size_t length)
{
	return copy_whole(to, from, length, (uintptr_t)from);
}

static int memory_store_raw(void *to, const void *from, size_t length)
{
	return copy_whole(to, from, length, (uintptr_t)to);
}

static int memory_move_raw(void *to, const void *from, size_t length)
{
	return copy_whole(to, from, length, (uintptr_t)to);
}

static int memory_fetch_add_raw(void *place, uint64_t add, uint64_t *old)
{
	*old = __atomic_fetch_add((uint64_t *)place, add, __ATOMIC_SEQ_CST);
	return 0;
}

static int memory_compare_swap_raw(void *place, uint64_t compare, uint64_t swap, uint64_t *old)
{
	*old = compare;
	__atomic_compare_exchange_n((uint64_t *)place, old, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return 0;
}

static int memory_store_8_raw(void *place, uint64_t value)
{
	__atomic_store_n((uint64_t *)place, value, __ATOMIC_RELEASE);
	return 0;
}

static int memory_copy_8_raw(void *to, const void *from)
{
	return copy_whole(to, from, 8, 0);
}

bool memory_recover(uintptr_t *pc)
{
	return false;
}

#endif

/* As the smallest messages mostly are: a number, a pointer. */
static bool is_word(const char *place, size_t length)
{
	return length == sizeof(uint64_t) && (uintptr_t)place % sizeof(uint64_t) == 0;
}

static bool has_string(const void *to, const void *from, size_t length)
{
	size_t behind = ((uintptr_t)to - (uintptr_t)from) % MOVE_PAGE;

	return length >= MOVE_LONG && (!behind || behind >= MOVE_BEHIND);
}

int memory_load(void *to, const char *from, size_t length)
{
	if (is_word(from, length))
		return memory_copy_8_raw(to, from);
	if (has_string(to, from, length))
		return memory_move_raw(to, from, length);
	return memory_load_raw(to, from, length);
}

int memory_store(char *to, const void *from, size_t length)
{
	if (is_word(to, length))
		return memory_copy_8_raw(to, from);
	return memory_store_raw(to, from, length);
}

int memory_move(char *to, const char *from, size_t length)
{
	size_t body = has_string(to, from, length) ? length - MOVE_END : 0;

	if (is_word(to, length))
		return memory_copy_8_raw(to, from);
	if (body && memory_move_raw(to, from, body))
		return -EFAULT;
	return memory_store_raw(to + body, from + body, length - body);
}

int memory_fetch_add(char *place, uint64_t add, uint64_t *old)
{
	return memory_fetch_add_raw(place, add, old);
}

int memory_compare_swap(char *place, uint64_t compare, uint64_t swap, uint64_t *old)
{
	return memory_compare_swap_raw(place, compare, swap, old);
}

int memory_store_8(char *place, uint64_t value)
{
	return memory_store_8_raw(place, value);
}

int memory_persist(char *place, size_t length)
{
	size_t into_page = (uintptr_t)place % (size_t)sysconf(_SC_PAGESIZE);

	return length && msync(place - into_page, length + into_page, MS_SYNC) ? -EFAULT : 0;
}
