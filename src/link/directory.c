/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entries of one size, written word by word, so that a reader in another process never depends on
 * more than whole words and their version.
 */
#include <stdatomic.h>
#include <string.h>

#include "device/av.h"
#include "device/port.h"
#include "link/directory.h"
#include "transport/reach.h"

enum {
	ENTRIES = 1 << 16, /* of each kind */
	ENTRY_WORDS = 7,
	KEY_INDEX_SHIFT = 12, /* of an rkey: its random bits (device/mr.h) */
	COMMONS_WORD = offsetof(struct directory_mr, commons.number) / 8,
};

struct entry {
	_Alignas(64) atomic_uint version; /* 0: nothing here, or it changes */
	atomic_uint versions;		  /* that there were */
	_Atomic uint64_t words[ENTRY_WORDS];
};

struct directory {
	struct entry qps[ENTRIES], mrs[ENTRIES];
	_Alignas(64) atomic_int sleeper;
};

_Static_assert(sizeof(struct entry) == 64, "one cache line");
_Static_assert(sizeof(struct directory_qp) <= ENTRY_WORDS * 8, "fits");
_Static_assert(sizeof(struct directory_mr) <= ENTRY_WORDS * 8, "fits");
_Static_assert(offsetof(struct directory_mr, commons.number) % 8 == 0, "the low half of a word");

size_t directory_bytes(void)
{
	return sizeof(struct directory);
}

static uint32_t qp_place(uint32_t qpn)
{
	return qpn % ENTRIES;
}

static uint32_t mr_place(uint32_t rkey)
{
	return (rkey >> KEY_INDEX_SHIFT) % ENTRIES;
}

/* ---- the owner ---- */

void directory_say_sleeper(struct directory *directory, pid_t thread)
{
	atomic_store_explicit(&directory->sleeper, thread, memory_order_relaxed);
}

static bool publish(struct entry *entry, const uint64_t words[ENTRY_WORDS])
{
	unsigned int version = atomic_load_explicit(&entry->versions, memory_order_relaxed) + 1;

	if (atomic_load_explicit(&entry->version, memory_order_relaxed))
		return false;
	version += version == 0;
	atomic_store_explicit(&entry->versions, version, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* the 0 comes before what is new */
	for (int i = 0; i < ENTRY_WORDS; i++)
		atomic_store_explicit(&entry->words[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&entry->version, version, memory_order_release);
	return true;
}

static void withdraw(struct entry *entry)
{
	atomic_store_explicit(&entry->version, 0, memory_order_relaxed);
}

bool directory_publish_qp(struct directory *directory, const struct directory_qp *qp)
{
	uint64_t words[ENTRY_WORDS] = {0};

	memcpy(words, qp, sizeof(*qp));
	return publish(&directory->qps[qp_place(qp->qpn)], words);
}

void directory_withdraw_qp(struct directory *directory, uint32_t qpn)
{
	withdraw(&directory->qps[qp_place(qpn)]);
}

bool directory_publish_mr(struct directory *directory, const struct directory_mr *mr)
{
	uint64_t words[ENTRY_WORDS] = {0};

	memcpy(words, mr, sizeof(*mr));
	return publish(&directory->mrs[mr_place(mr->rkey)], words);
}

void directory_withdraw_mr(struct directory *directory, uint32_t rkey)
{
	withdraw(&directory->mrs[mr_place(rkey)]);
}

/* ---- readers ---- */

pid_t directory_sleeper(const struct directory *directory)
{
	return atomic_load_explicit(&directory->sleeper, memory_order_relaxed);
}

/* The version that was copied, 0 if there is nothing, or it changed meanwhile. */
static unsigned int copy(const struct entry *entry, uint64_t words[ENTRY_WORDS])
{
	unsigned int version = atomic_load_explicit(&entry->version, memory_order_acquire);

	for (int i = 0; version && i < ENTRY_WORDS; i++)
		words[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&entry->version, memory_order_relaxed) == version ? version : 0;
}

/* What is kept of the entry, as long as that is the same version. */
static bool is_kept(const struct entry *entry, const void *kept, unsigned int version)
{
	return entry == kept && version &&
	       atomic_load_explicit(&entry->version, memory_order_acquire) == version;
}

static bool read_qp(const struct entry *entry, struct directory_memo *memo)
{
	uint64_t words[ENTRY_WORDS];

	if (is_kept(entry, memo->stamp.qp_entry, memo->stamp.qp_version))
		return true;
	memo->stamp.qp_entry = entry;
	memo->stamp.qp_version = copy(entry, words);
	if (memo->stamp.qp_version)
		memcpy(&memo->qp, words, sizeof(memo->qp));
	return memo->stamp.qp_version;
}

static bool read_mr(const struct entry *entry, struct directory_memo *memo)
{
	uint64_t words[ENTRY_WORDS];

	if (is_kept(entry, memo->stamp.mr_entry, memo->stamp.mr_version))
		return true;
	memo->stamp.mr_entry = entry;
	memo->stamp.mr_version = copy(entry, words);
	if (memo->stamp.mr_version)
		memcpy(&memo->mr, words, sizeof(memo->mr));
	return memo->stamp.mr_version;
}

static bool qp_takes(const struct directory_qp *qp, const struct directory_question *question)
{
	return qp->qpn == question->dest_qpn && qp->dest_qpn == question->qpn &&
	       gid_is_same(&qp->gid, &question->dest_gid) &&
	       gid_is_same(&qp->dest_gid, &question->gid) &&
	       pkey_is_match((uint16_t)qp->pkey, question->pkey) && !(question->need & ~qp->access);
}

static bool mr_takes(const struct directory_mr *mr, const struct directory_question *question)
{
	unsigned int need = question->need & ~(unsigned int)REACH_SENDS;

	return mr->rkey == question->rkey && !(need & ~mr->access) && question->addr >= mr->iova &&
	       question->length <= mr->length &&
	       question->addr - mr->iova <= mr->length - question->length;
}

bool directory_recall(const struct directory *directory, struct directory_memo *memo,
		      const struct directory_question *question, struct directory_answer *answer)
{
	const struct directory_mr *mr = &memo->mr;

	if (!read_qp(&directory->qps[qp_place(question->dest_qpn)], memo) ||
	    !qp_takes(&memo->qp, question) ||
	    !read_mr(&directory->mrs[mr_place(question->rkey)], memo) || !mr_takes(mr, question) ||
	    mr->pd != memo->qp.pd)
		return false;
	answer->place = mr->base + (question->addr - mr->iova);
	answer->commons = mr->commons;
	answer->commons.offset += question->addr - mr->iova;
	return true;
}

bool directory_ask(const struct directory *directory, const struct directory_question *question,
		   struct directory_answer *answer)
{
	struct directory_memo memo = {.stamp = {.qp_entry = NULL}};

	return directory_recall(directory, &memo, question, answer);
}

bool directory_is_unchanged(const struct directory_stamp *stamp)
{
	return is_kept(stamp->qp_entry, stamp->qp_entry, stamp->qp_version) &&
	       is_kept(stamp->mr_entry, stamp->mr_entry, stamp->mr_version);
}

bool directory_is_common(const struct directory *directory, uint32_t rkey)
{
	const struct entry *entry = &directory->mrs[mr_place(rkey)];

	return (uint32_t)atomic_load_explicit(&entry->words[COMMONS_WORD], memory_order_relaxed);
}
