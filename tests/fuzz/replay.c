/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stands in for libFuzzer where there is none: feeds a target with the recorded packets, and then
 * with mutations of them. Usage: fuzz_NAME [SEED [MUTATIONS]]. Inputs are copied to the end of a
 * heap block, so that a sanitizer or valgrind sees a read beyond them.
 */
#include "recorded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CORPUS_EVERY = 16, CORPUS_MAX = RECORDED_PACKETS / CORPUS_EVERY + 1, EDITS_MAX = 4 };

struct corpus {
	struct {
		uint8_t *bytes;
		size_t length;
	} entries[CORPUS_MAX];
	int seen, count;
};

static uint64_t random_state;

/* xorshift64*, so that a seed means the same everywhere. */
static uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 0x2545f4914f6cdd1d >> 33) % limit;
}

static void run(const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, length);
	LLVMFuzzerTestOneInput(copy, length);
	free(copy);
}

static void take(const struct recorded *r, void *context)
{
	struct corpus *corpus = context;

	run(r->bth, r->length);
	if (corpus->seen++ % CORPUS_EVERY || corpus->count == CORPUS_MAX)
		return;
	corpus->entries[corpus->count].bytes = malloc(r->length);
	if (!corpus->entries[corpus->count].bytes)
		abort();
	memcpy(corpus->entries[corpus->count].bytes, r->bth, r->length);
	corpus->entries[corpus->count++].length = r->length;
}

static void mutate(const struct corpus *corpus)
{
	static uint8_t bytes[RECORDED_BYTES_MAX];
	int which = random_below(corpus->count);
	size_t length = corpus->entries[which].length;

	memcpy(bytes, corpus->entries[which].bytes, length);
	if (random_below(2))
		length = random_below(length + 1);
	for (int i = random_below(EDITS_MAX + 1); i > 0 && length; i--) {
		/* Mostly in the headers: that is where decisions are made. */
		size_t at = random_below(random_below(4) && length > 48 ? 48 : length);

		if (random_below(2))
			bytes[at] ^= 1 << random_below(8);
		else
			bytes[at] = random_below(256);
	}
	if (random_below(4) == 0 && length)
		bytes[0] = random_below(256);
	run(bytes, length);
}

int main(int argc, char **argv)
{
	static struct corpus corpus;
	long mutations = argc > 2 ? atol(argv[2]) : 100000;

	random_state = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 0x9e3779b97f4a7c15 | 1;
	if (recorded_each(take, &corpus) != RECORDED_PACKETS)
		return 1;
	for (long i = 0; i < mutations; i++)
		mutate(&corpus);
	for (int i = 0; i < corpus.count; i++)
		free(corpus.entries[i].bytes);
	printf("%d recorded packets, %ld mutations\n", RECORDED_PACKETS, mutations);
	return 0;
}
