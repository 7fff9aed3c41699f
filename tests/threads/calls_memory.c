// SPDX-License-Identifier: BSD-2-Clause
/*
 * The matrix of verbs: domains, regions, windows, device memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"

/* ---- domains ---- */

static void pd_life(struct set *set)
{
	struct ibv_pd *pd = ibv_alloc_pd(set->rig.context);

	CHECK(pd && !ibv_dealloc_pd(pd));
}

static void pd_busy(struct set *set)
{
	CHECK(ibv_dealloc_pd(set->rig.pd) == EBUSY);
}

static void td_life(struct set *set)
{
	struct ibv_td_init_attr attr = {0};
	struct ibv_td *td = ibv_alloc_td(set->rig.context, &attr);

	CHECK(td && !ibv_dealloc_td(td));
}

static void td_busy(struct set *set)
{
	CHECK(ibv_dealloc_td(set->td) == EBUSY);
}

static void parent_life(struct set *set)
{
	struct ibv_parent_domain_init_attr attr = {.pd = set->rig.pd, .td = set->td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(set->rig.context, &attr);

	CHECK(parent && !ibv_dealloc_pd(parent));
}

static void xrcd_life(struct set *set)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
					      IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(set->rig.context, &attr);

	CHECK(xrcd && !ibv_close_xrcd(xrcd));
}

static void xrcd_busy(struct set *set)
{
	CHECK(ibv_close_xrcd(set->xrcd) == EBUSY);
}

/* ---- regions ---- */

static void end_mr(struct set *set, struct ibv_mr *mr)
{
	CHECK(mr && mr->lkey != set->mr->lkey && mr->rkey != set->mr->rkey);
	CHECK(!ibv_dereg_mr(mr));
}

static void mr_life(struct set *set)
{
	uint64_t iova = 0x10000;

	end_mr(set, ibv_reg_mr(set->parent, set->bytes, SET_BYTES, SET_ACCESS));
	end_mr(set, ibv_reg_mr_iova(set->rig.pd, set->bytes, SET_BYTES, iova, SET_ACCESS));
	end_mr(set, ibv_reg_mr_iova2(set->rig.pd, set->bytes, SET_BYTES, iova, SET_ACCESS));
}

static void mr_ex_life(struct set *set)
{
	struct ibv_dmah_init_attr hints = {0};
	struct ibv_dmah *dmah = ibv_alloc_dmah(set->rig.context, &hints);
	struct ibv_mr_init_attr attr = {.length = SET_BYTES,
					.access = SET_ACCESS,
					.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH,
					.addr = set->bytes,
					.dmah = dmah};

	CHECK(dmah);
	end_mr(set, ibv_reg_mr_ex(set->rig.pd, &attr));
	CHECK(!ibv_dealloc_dmah(dmah));
}

static void null_mr_life(struct set *set)
{
	end_mr(set, ibv_alloc_null_mr(set->rig.pd));
}

static void mr_busy(struct set *set)
{
	CHECK(ibv_dereg_mr(set->bound) == EBUSY);
	CHECK(ibv_rereg_mr(set->bound, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
}

static void mr_anew(struct set *set)
{
	CHECK(!ibv_rereg_mr(set->moving, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, set->bytes + 4096,
			    4096, 0));
	CHECK(!ibv_rereg_mr(set->moving,
			    IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
			    set->bytes, SET_BYTES, SET_ACCESS));
}

static void query_mr(struct set *set)
{
	struct verbatim_mr_attr attr;

	CHECK(!verbatim_query_mr(set->mr, &attr) && attr.length == SET_BYTES);
	CHECK(!verbatim_query_mr(set->moving, &attr) && attr.pd == set->rig.pd);
}

static void share_mr(struct set *set)
{
	end_mr(set, verbatim_reg_shared_mr(set->moving, set->rig.pd, 0x20000, SET_ACCESS));
}

static void advise(struct set *set)
{
	struct ibv_mr *mr = ibv_reg_mr(set->rig.pd, set->bytes, SET_BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)set->bytes, SET_BYTES, 0};

	CHECK(mr);
	sge.lkey = mr->lkey;
	CHECK(!ibv_advise_mr(set->rig.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			     &sge, 1));
	CHECK(!ibv_dereg_mr(mr));
}

static void buf_life(struct set *set)
{
	struct ibv_buf *buf;
	char *bytes = ibv_alloc_buf(set->rig.pd, 4096, &buf);

	CHECK(bytes);
	end_mr(set, ibv_reg_buf_mr(set->rig.pd, buf, bytes, 4096, SET_ACCESS));
	ibv_free_buf(buf);
}

static void buf_use(struct set *set)
{
	int fd = ibv_export_buf_dmabuf_fd(set->buf);

	CHECK(fd >= 0);
	end_mr(set, ibv_reg_buf_mr(set->rig.pd, set->buf, set->buf_bytes, 4096, SET_ACCESS));
	end_mr(set, ibv_reg_dmabuf_mr(set->rig.pd, 0, 4096, 0, fd, SET_ACCESS));
	close(fd);
}

/* ---- device memory ---- */

static void dm_life(struct set *set)
{
	struct ibv_alloc_dm_attr attr = {.length = 512};
	struct ibv_dm *dm = ibv_alloc_dm(set->rig.context, &attr);

	CHECK(dm && !ibv_free_dm(dm));
}

static void dm_copy(struct set *set)
{
	uint64_t here = 5, place = 64 * (uint64_t)matrix_thread;

	CHECK(!ibv_memcpy_to_dm(set->dm, place, &here, sizeof(here)));
	CHECK(!ibv_memcpy_from_dm(&here, set->dm, place, sizeof(here)));
}

static void dm_use(struct set *set)
{
	int fd = ibv_dm_export_dmabuf_fd(set->dm);

	CHECK(fd >= 0);
	close(fd);
	end_mr(set, ibv_reg_dm_mr(set->rig.pd, set->dm, 0, 512,
				  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
}

/* ---- windows ---- */

static void mw_life(struct set *set)
{
	struct ibv_mw *mw = ibv_alloc_mw(set->rig.pd, IBV_MW_TYPE_2);

	CHECK(mw && !ibv_dealloc_mw(mw));
}

static void mw_bind(struct set *set)
{
	struct ibv_mw_bind bind = {
	    .bind_info = {.mr = set->mr,
			  .addr = (uintptr_t)set->bytes,
			  .length = 64,
			  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	    .send_flags = IBV_SEND_SIGNALED,
	};
	int ret = ibv_bind_mw(set->from, set->mw, &bind);

	CHECK(!ret || ret == ENOMEM);
	if (!ret)
		atomic_fetch_add(&set->posted, 1);
}

static void query_mw(struct set *set)
{
	struct verbatim_mw_attr attr;

	CHECK(!verbatim_query_mw(set->mw, &attr) && attr.pd == set->rig.pd);
	CHECK(!verbatim_query_mw(set->bound_mw, &attr) && attr.is_bound);
}

const struct verb calls_memory[] = {
    {"ibv_alloc_pd ibv_dealloc_pd", pd_life},
    {"ibv_dealloc_pd", pd_busy},
    {"ibv_alloc_td ibv_dealloc_td", td_life},
    {"ibv_dealloc_td", td_busy},
    {"ibv_alloc_parent_domain", parent_life},
    {"ibv_open_xrcd ibv_close_xrcd", xrcd_life},
    {"ibv_close_xrcd", xrcd_busy},
    {"ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2 ibv_dereg_mr", mr_life},
    {"ibv_reg_mr_ex ibv_alloc_dmah ibv_dealloc_dmah", mr_ex_life},
    {"ibv_alloc_null_mr", null_mr_life},
    {"ibv_dereg_mr", mr_busy},
    {"ibv_rereg_mr", mr_anew},
    {"verbatim_query_mr", query_mr},
    {"verbatim_reg_shared_mr", share_mr},
    {"ibv_advise_mr", advise},
    {"ibv_alloc_buf ibv_reg_buf_mr ibv_free_buf", buf_life},
    {"ibv_export_buf_dmabuf_fd ibv_reg_dmabuf_mr", buf_use},
    {"ibv_alloc_dm ibv_free_dm", dm_life},
    {"ibv_memcpy_to_dm ibv_memcpy_from_dm", dm_copy},
    {"ibv_dm_export_dmabuf_fd ibv_reg_dm_mr", dm_use},
    {"ibv_alloc_mw ibv_dealloc_mw", mw_life},
    {"ibv_bind_mw", mw_bind},
    {"verbatim_query_mw", query_mw},
    {NULL, NULL},
};
