/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the verbs layer's handler does of faults: a copy of the core's whose memory is gone fails,
 * any other fault ends the test. For who defines _GNU_SOURCE first. FAULTS_ARE_FOUND: here they
 * are, on this processor.
 */
#ifndef UNIT_FAULTS_H
#define UNIT_FAULTS_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>
#include <unistd.h>

#include "device/memory.h"

#ifdef __x86_64__
#define FAULTS_ARE_FOUND
#endif

static void on_fault(int number, siginfo_t *info, void *data)
{
#ifdef FAULTS_ARE_FOUND
	ucontext_t *context = data;
	uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

	if (memory_recover(&pc)) {
		context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
		return;
	}
#endif
	_exit(99);
}

/* In each test: cmocka puts a handler of its own before every one of them. */
static inline void guard_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
	assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

#endif
