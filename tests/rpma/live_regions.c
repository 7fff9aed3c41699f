/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: what each usage lets through, advice, descriptors; and how each call refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/lonely_pages.h"
#include "rig.h"

#define ok(call)	   assert_int_equal(call, 0)
#define refused(call, why) assert_int_equal(call, why)

enum { PAGE = 4096, PAGES = 4 };

static struct rpma_peer *peer;

static int up(void **state)
{
	struct ibv_context *context;

	return rpma_utils_get_ibv_context(RIG_ADDRESS, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context) ||
	       rpma_peer_new(context, &peer);
}

static int down(void **state)
{
	return rpma_peer_delete(&peer);
}

static char *map(void)
{
	return mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool is_there(void *page)
{
	unsigned char there = 0;

	mincore(page, PAGE, &there);
	return there & 1;
}

static void registration_refuses(void **state)
{
	static char memory[64];
	struct rpma_mr_local *mr = (void *)1;

	refused(rpma_mr_reg(NULL, memory, 64, RPMA_MR_USAGE_SEND, &mr), RPMA_E_INVAL);
	refused(rpma_mr_reg(peer, NULL, 64, RPMA_MR_USAGE_SEND, &mr), RPMA_E_INVAL);
	refused(rpma_mr_reg(peer, memory, 0, RPMA_MR_USAGE_SEND, &mr), RPMA_E_INVAL);
	refused(rpma_mr_reg(peer, memory, 64, 0, &mr), RPMA_E_INVAL);
	refused(rpma_mr_reg(peer, memory, 64, 0x100, &mr), RPMA_E_INVAL);
	refused(rpma_mr_reg(peer, memory, 64, RPMA_MR_USAGE_SEND, NULL), RPMA_E_INVAL);
	assert_ptr_equal(mr, (void *)1);
	ok(rpma_mr_reg(peer, memory, 64, RPMA_MR_USAGE_SEND, &mr));
	ok(rpma_mr_dereg(&mr));
	assert_null(mr);
	ok(rpma_mr_dereg(&mr));
}

static void advice_brings_pages_in(void **state)
{
	char *pages = map();
	struct rpma_mr_local *mr;

	ok(rpma_mr_reg(peer, pages, PAGES * PAGE, RPMA_MR_USAGE_WRITE_DST, &mr));
	ok(rpma_mr_advise(mr, PAGE, PAGE, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0));
	assert_false(is_there(pages + PAGE));
	ok(rpma_mr_advise(mr, PAGE + 8, PAGE, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			  IBV_ADVISE_MR_FLAG_FLUSH));
	assert_false(is_there(pages));
	assert_true(is_there(pages + PAGE));
	assert_true(is_there(pages + 2 * PAGE));
	assert_false(is_there(pages + 3 * PAGE));
	ok(rpma_mr_advise(mr, 0, PAGES * PAGE, IBV_ADVISE_MR_ADVICE_PREFETCH, 0));
	ok(rpma_mr_advise(mr, PAGES * PAGE, 0, IBV_ADVISE_MR_ADVICE_PREFETCH, 0));
	ok(rpma_mr_dereg(&mr));
	munmap(pages, PAGES * PAGE);
}

static void advice_that_does_not_fit(void **state)
{
	const int read = IBV_ADVISE_MR_ADVICE_PREFETCH, flush = IBV_ADVISE_MR_FLAG_FLUSH,
		  write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	char *pages = lonely_pages(PAGES * PAGE);
	struct rpma_mr_local *mr;

	ok(rpma_mr_reg(peer, pages, PAGES * PAGE, RPMA_MR_USAGE_READ_SRC, &mr));
	refused(rpma_mr_advise(NULL, 0, 8, read, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, 0, PAGES * PAGE + 1, read, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, PAGES * PAGE + 1, 0, read, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, SIZE_MAX, 2, read, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, 0, (size_t)UINT32_MAX + 1, read, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, 0, 8, read, 2), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, 0, 8, write, 0), RPMA_E_INVAL);
	refused(rpma_mr_advise(mr, 0, 8, 3, 0), RPMA_E_NOSUPP);
	refused(rpma_mr_advise(mr, 0, 8, -1, 0), RPMA_E_NOSUPP);
	munmap(pages + PAGE, PAGE);
	ok(rpma_mr_advise(mr, PAGE, 8, read, 0)); /* nobody waits to hear */
	refused(rpma_mr_advise(mr, PAGE, 8, read, flush), RPMA_E_INVAL);
	ok(rpma_mr_dereg(&mr));
	munmap(pages, PAGES * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(registration_refuses),
	    cmocka_unit_test(advice_brings_pages_in),
	    cmocka_unit_test(advice_that_does_not_fit),
	};

	return cmocka_run_group_tests(tests, up, down);
}
