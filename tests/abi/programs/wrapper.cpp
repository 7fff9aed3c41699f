// SPDX-License-Identifier: BSD-2-Clause
// A C++ program for rdma-core: objects wrapped in classes, constants as template arguments.
// Compiled, not run.
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <infiniband/verbs.h>

template <typename T, int (*destroy)(T *)> struct destroyer {
	void operator()(T *object) const
	{
		destroy(object);
	}
};

using pd_ptr = std::unique_ptr<ibv_pd, destroyer<ibv_pd, ibv_dealloc_pd>>;
using cq_ptr = std::unique_ptr<ibv_cq, destroyer<ibv_cq, ibv_destroy_cq>>;
using mr_ptr = std::unique_ptr<ibv_mr, destroyer<ibv_mr, ibv_dereg_mr>>;

static_assert(std::is_standard_layout<ibv_send_wr>::value, "posted from C");
static_assert(IBV_ACCESS_OPTIONAL_RANGE != 0 &&
		  (IBV_ACCESS_RELAXED_ORDERING & IBV_ACCESS_OPTIONAL_RANGE),
	      "");

class device
{
	ibv_context *context;

      public:
	explicit device(ibv_device *which) : context(ibv_open_device(which))
	{
		if (!context)
			throw std::runtime_error(std::strerror(errno));
	}
	~device()
	{
		ibv_close_device(context);
	}
	ibv_port_attr port(uint8_t number) const
	{
		ibv_port_attr attr;
		if (int error = ibv_query_port(context, number, &attr))
			throw std::runtime_error(std::strerror(error));
		return attr;
	}
	bool extended() const
	{
		return verbs_get_ctx(context) && verbs_get_ctx_op(context, create_cq_ex) != nullptr;
	}
	pd_ptr alloc_pd() const
	{
		return pd_ptr(ibv_alloc_pd(context));
	}
	cq_ptr create_cq(int cqe) const
	{
		return cq_ptr(ibv_create_cq(context, cqe, nullptr, nullptr, 0));
	}
};

int main()
{
	int count;
	ibv_device **list = ibv_get_device_list(&count);
	device first(list[0]);
	char buffer[64];
	pd_ptr pd = first.alloc_pd();
	mr_ptr mr(ibv_reg_mr(pd.get(), buffer, sizeof(buffer),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	ibv_send_wr wr = {};
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = 1;
	wr.wr.rdma.rkey = mr->rkey;
	return first.extended() ? first.port(1).state : static_cast<int>(wr.opcode);
}
