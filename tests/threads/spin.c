// SPDX-License-Identifier: BSD-2-Clause
/* A queue's lock, taken by three threads at once: whoever has it is alone, and helgrind and drd see
 * that. */
#include <pthread.h>
#include <sched.h>

#include "base/spin.h"
#include "rig.h"

enum { THREADS = 3, ROUNDS = 2000 };

static struct spin lock;
static unsigned int count; /* under the lock */

/* (that who holds it gives up the processor makes the others wait) */
static void *take_turns(void *unused)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int before;

		spin_lock(&lock);
		before = count;
		if (i % 16 == 0)
			sched_yield();
		count = before + 1;
		spin_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	spin_init(&lock);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, take_turns, NULL));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(count == THREADS * ROUNDS);
	spin_destroy(&lock);
	return 0;
}
