// SPDX-License-Identifier: BSD-2-Clause
/*
 * The libraries of hardware providers that perftest, UCX and libfabric bring along look at each
 * device for one of theirs, partly behind the structs that programs know. They find none, and say
 * so. (By dlopen, as nothing else of the tree needs these libraries when it is built.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

static struct ibv_device **list;

/* A call of a provider's library, which all symbols of ours must suffice for. */
static void *provider(const char *library, const char *call)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle || !dlsym(handle, call))
		fail_msg("%s", dlerror());
	return dlsym(handle, call);
}

static int find(void **state)
{
	list = ibv_get_device_list(NULL);
	return list && list[0] ? 0 : -1;
}

static int release(void **state)
{
	ibv_free_device_list(list);
	return 0;
}

static void no_device_is_taken_for_mlx5(void **state)
{
	bool (*is_supported)(struct ibv_device *) = provider("libmlx5.so.1", "mlx5dv_is_supported");
	struct ibv_context *(*open_device)(struct ibv_device *, void *) =
	    provider("libmlx5.so.1", "mlx5dv_open_device");
	int (*query_device)(struct ibv_context *, void *) =
	    provider("libmlx5.so.1", "mlx5dv_query_device");

	for (struct ibv_device **device = list; *device; device++) {
		struct ibv_context *context = ibv_open_device(*device);
		uint64_t attr[64] = {0};

		assert_non_null(context);
		assert_false(is_supported(*device));
		errno = 0;
		assert_null(open_device(*device, attr));
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(query_device(context, attr), EOPNOTSUPP);
		assert_int_equal(ibv_close_device(context), 0);
	}
}

static void no_device_is_taken_for_efa(void **state)
{
	int (*query_device)(struct ibv_context *, void *, uint32_t) =
	    provider("libefa.so.1", "efadv_query_device");

	for (struct ibv_device **device = list; *device; device++) {
		struct ibv_context *context = ibv_open_device(*device);
		uint64_t attr[64] = {0};

		assert_non_null(context);
		assert_int_equal(query_device(context, attr, sizeof(attr)), EOPNOTSUPP);
		assert_int_equal(ibv_close_device(context), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_device_is_taken_for_mlx5),
	    cmocka_unit_test(no_device_is_taken_for_efa),
	};

	return cmocka_run_group_tests(tests, find, release);
}
