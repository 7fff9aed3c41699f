/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call that can fail does, once: of a life that uses every part of librpma the N-th fault
 * point fails, for every N. The code is one that says so, no descriptor is left open and no object
 * alive.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "life.h"
#include "rpma/fault.h"

enum { LEAST = 80, MOST = 1000 };

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

int main(int argc, char **argv)
{
	unsigned int only = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	unsigned int failed = 0, codes[16] = {0}, n;
	int code, before;

	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
	/* librdmacm keeps the last channels that were destroyed: they are not ours */
	for (int i = 0; i < 2; i++) {
		fault_set(0);
		code = life_lead();
		if (code) {
			printf("a life without faults: %s\n", rpma_err_2str(code));
			return 1;
		}
	}
	printf("%u fault points\n", fault_count());
	before = open_descriptors();
	for (n = only ? only : 1; n < MOST; n++) {
		fault_set(n);
		code = life_lead();
		if (fault_count() < n)
			break;
		if (code)
			codes[-code - -RPMA_E_UNKNOWN]++;
		else
			codes[15]++;
		if (code != 0 && code != RPMA_E_PROVIDER && code != RPMA_E_NOMEM &&
		    code != RPMA_E_NO_COMPLETION) {
			printf("fault %u: %d %s\n", n, code, rpma_err_2str(code));
			failed++;
		}
		if (open_descriptors() != before) {
			printf("fault %u: %d descriptors, not %d\n", n, open_descriptors(), before);
			failed++;
			before = open_descriptors();
		}
		if (only)
			break;
	}
	printf("%u faults: %u provider, %u memory, %u no completion, %u got over\n", n - 1,
	       codes[2], codes[3], codes[5], codes[15]);
	/*
	 * Some are got over: who is turned away need not hear why. How often each is met depends on
	 * how often a life had to wait, since looking is a fault point too: so a few are met by
	 * several numbers, and others by none.
	 */
	if (!only &&
	    (n <= LEAST || n == MOST || codes[2] < 40 || codes[3] < 10 || codes[15] > n / 8))
		failed++;
	return failed != 0;
}
