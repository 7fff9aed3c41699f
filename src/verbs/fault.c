/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGSEGV and SIGBUS: a fault in one of the device's copies becomes the copy's -EFAULT, every other
 * one goes to whoever had the signal before us, as if we were not there.
 *
 * fault_guard() is called at each registration of memory: a program that installs a handler of its
 * own later on is behind us again with its next region. What is left: between the two, and on
 * threads of the program that block SIGSEGV, a fault in a copy is the program's.
 */
#define _GNU_SOURCE /* REG_RIP */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "device/memory.h"
#include "verbs/fault.h"

#ifdef __x86_64__

enum { HISTORY = 8 };

static struct guard {
	int number;
	/* who had the signal each time that we were installed, the last one last; written before it
	 */
	struct sigaction before[HISTORY];
	int count;
} guards[] = {{.number = SIGSEGV}, {.number = SIGBUS}};

static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Who was installed after us and then found behind us may chain to us: a circle. The turns of one
 * delivery are counted in the siginfo's last bytes, which the kernel hands over as zeros; a
 * variable would stay wrong when a handler leaves by siglongjmp().
 */
static uint64_t *turns_of(siginfo_t *info)
{
	return (uint64_t *)(void *)((char *)info + sizeof(*info) - sizeof(uint64_t));
}

/* The instruction is run again, and faults with nobody to catch it. */
static void fault_default(int number)
{
	signal(number, SIG_DFL);
}

static bool is_default(const struct sigaction *action)
{
	return !(action->sa_flags & SA_SIGINFO) &&
	       (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

static void chain(int number, siginfo_t *info, void *context)
{
	struct guard *guard = &guards[number == SIGBUS];
	uint64_t turn = (*turns_of(info))++;
	struct sigaction *next, action;

	if (turn >= (uint64_t)guard->count) {
		fault_default(number);
		return;
	}
	next = &guard->before[(uint64_t)guard->count - 1 - turn];
	action = *next;
	if (is_default(&action)) {
		fault_default(number);
		return;
	}
	if (action.sa_flags & SA_RESETHAND) {
		next->sa_flags = 0;
		next->sa_handler = SIG_DFL;
	}
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(number, info, context);
	else
		action.sa_handler(number);
	*turns_of(info) = 0;
}

static bool recover(ucontext_t *context)
{
	uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

	if (!memory_recover(&pc))
		return false;
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
	return true;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	/* One that somebody sent (si_code of 0 or less) is not a fault. */
	if (info->si_code <= 0 || !recover(context))
		chain(number, info, context);
}

static bool is_ours(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_fault;
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
	return (a->sa_flags & SA_SIGINFO) == (b->sa_flags & SA_SIGINFO) &&
	       (void *)a->sa_handler == (void *)b->sa_handler;
}

static void remember(struct guard *guard, const struct sigaction *now)
{
	if (guard->count && is_same(&guard->before[guard->count - 1], now))
		guard->count--;
	if (guard->count == HISTORY)
		memmove(guard->before, guard->before + 1,
			(size_t)--guard->count * sizeof(guard->before[0]));
	guard->before[guard->count] = *now;
	guard->count++;
}

/* The program's own mask and flags stay in force for its handler. */
static void install(struct guard *guard)
{
	struct sigaction now, ours;

	if (sigaction(guard->number, NULL, &now) || is_ours(&now))
		return;
	remember(guard, &now);
	ours = now;
	ours.sa_flags = (now.sa_flags & ~SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
	ours.sa_sigaction = on_fault;
	sigaction(guard->number, &ours, NULL);
}

void fault_hold(void)
{
	pthread_mutex_lock(&guard_lock);
}

void fault_release(void)
{
	pthread_mutex_unlock(&guard_lock);
}

void fault_guard(void)
{
	pthread_mutex_lock(&guard_lock);
	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
		install(&guards[i]);
	pthread_mutex_unlock(&guard_lock);
}

/* The library may be unloaded: no signal may lead into it then. */
__attribute__((destructor)) static void remove_guards(void)
{
	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++) {
		struct guard *guard = &guards[i];
		struct sigaction now;

		if (guard->count && !sigaction(guard->number, NULL, &now) && is_ours(&now))
			sigaction(guard->number, &guard->before[guard->count - 1], NULL);
	}
}

#else

void fault_hold(void)
{
}

void fault_release(void)
{
}

void fault_guard(void)
{
}

#endif
