/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of a QP: which transition needs and takes which attributes (10.3.1, 11.2.5.2 Table 91,
 * ibv_modify_qp(3)), and the ranges of all of them. Checks come first and change nothing; then all
 * is taken over at once.
 */
#include <stdio.h>
#include <string.h>

#include "device/adapter.h"
#include "device/cq.h"
#include "device/qp.h"
#include "explain/reason.h"
#include "wire/mtu.h"
#include "wire/psn.h"

enum { RC, UC, UD, XRC_SEND, XRC_RECV, RAW, TYPES };
enum {
	ALT = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
	/* Of the other half of an XRC connection: programs, perftest among them, set both alike. */
	OTHERS_RTR = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	OTHERS_RTS = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	RTR_CONNECTED = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,

	MAX_TIMEOUT = 31,
	MAX_RETRY = 7,
	MAX_RNR_TIMER = 31,
	MAX_QPN = 0xffffff,
	/* those of a region that mean nothing here are let through: programs give both the same
	   flags */
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL |
		       IBV_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE,
};

/* IBV_QP_STATE itself may stand in every mask. RESET and ERR are reached from everywhere, see
 * find_rule(). */
struct rule {
	enum ibv_qp_state from, to;
	struct {
		bool has; /* the type makes this transition */
		int required, optional;
	} of[TYPES];
};

static const struct rule rules[] = {
    {IBV_QPS_RESET,
     IBV_QPS_INIT,
     {
	 [RC] = {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	 [UC] = {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	 [UD] = {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	 [XRC_SEND] = {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	 [XRC_RECV] = {true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	 [RAW] = {true, IBV_QP_PORT, 0},
     }},
    {IBV_QPS_INIT,
     IBV_QPS_INIT,
     {
	 [RC] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	 [UC] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	 [UD] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	 [XRC_SEND] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	 [XRC_RECV] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	 [RAW] = {true, 0, IBV_QP_PORT},
     }},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {
	 [RC] = {true, RTR_CONNECTED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	 [UC] = {true, RTR_CONNECTED, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	 [UD] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	 [XRC_SEND] = {true, RTR_CONNECTED,
		       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | OTHERS_RTR},
	 [XRC_RECV] = {true, RTR_CONNECTED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	 [RAW] = {true, 0, 0},
     }},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {
	 [RC] = {true,
		 IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		     IBV_QP_MAX_QP_RD_ATOMIC,
		 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT},
	 [UC] = {true, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [UD] = {true, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	 [XRC_SEND] = {true,
		       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_MAX_QP_RD_ATOMIC,
		       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [XRC_RECV] = {true, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
		       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT |
			   OTHERS_RTS},
	 [RAW] = {true, 0, IBV_QP_CUR_STATE},
     }},
    {IBV_QPS_RTS,
     IBV_QPS_RTS,
     {
	 [RC] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT},
	 [UC] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [UD] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	 [XRC_SEND] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [XRC_RECV] = {true, 0,
		       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT},
	 [RAW] = {true, 0, IBV_QP_CUR_STATE},
     }},
    {IBV_QPS_RTS,
     IBV_QPS_SQD,
     {
	 [RC] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	 [UC] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	 [UD] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	 [XRC_SEND] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	 [XRC_RECV] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
     }},
    {IBV_QPS_SQD,
     IBV_QPS_RTS,
     {
	 [RC] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT},
	 [UC] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [UD] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	 [XRC_SEND] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT},
	 [XRC_RECV] = {true, 0,
		       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ALT},
     }},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {
	 [RC] = {true, 0,
		 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
		     IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ALT},
	 [UC] = {true, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ALT},
	 [UD] = {true, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	 [XRC_SEND] = {true, 0,
		       IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
			   IBV_QP_PKEY_INDEX | ALT},
	 [XRC_RECV] = {true, 0,
		       IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC |
			   IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ALT},
     }},
    {IBV_QPS_SQE,
     IBV_QPS_RTS,
     {
	 [UC] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
	 [UD] = {true, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	 [RAW] = {true, 0, IBV_QP_CUR_STATE},
     }},
};

static const struct {
	int bit;
	const char *name;
} attributes[] = {
    {IBV_QP_STATE, "IBV_QP_STATE"},
    {IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"},
    {IBV_QP_PORT, "IBV_QP_PORT"},
    {IBV_QP_QKEY, "IBV_QP_QKEY"},
    {IBV_QP_AV, "IBV_QP_AV"},
    {IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU"},
    {IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT"},
    {IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY"},
    {IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"},
    {IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH"},
    {IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    {IBV_QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE"},
    {IBV_QP_CAP, "IBV_QP_CAP"},
    {IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"},
    {IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT"},
};

enum { NAMES_SIZE = 160 };

/* The names of a mask's bits, with a space between. */
static const char *mask_names(int mask, char names[NAMES_SIZE])
{
	size_t used = 0;

	names[0] = '\0';
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (!(mask & attributes[i].bit))
			continue;
		mask &= ~attributes[i].bit;
		if (used < NAMES_SIZE)
			used += (size_t)snprintf(names + used, NAMES_SIZE - used, "%s%s",
						 used ? " " : "", attributes[i].name);
	}
	if (mask && used < NAMES_SIZE)
		snprintf(names + used, NAMES_SIZE - used, "%s%#x", used ? " " : "", mask);
	return names;
}

const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {
	    [IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	    [IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",	[IBV_QPS_SQE] = "SQE",
	    [IBV_QPS_ERR] = "ERR",
	};

	return (unsigned int)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static int type_index(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	default:
		return UD;
	}
}

static const char *type_name(const struct qp *qp)
{
	static const char *const names[] = {
	    [RC] = "RC",
	    [UC] = "UC",
	    [UD] = "UD",
	    [XRC_SEND] = "XRC_SEND",
	    [XRC_RECV] = "XRC_RECV",
	    [RAW] = "RAW_PACKET",
	};

	return names[type_index(qp->type)];
}

/* True with what a transition needs and takes; every state but RESET may go to ERR, and every one
 * to RESET. */
static bool find_rule(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
		      int *required, int *optional)
{
	int type = type_index(qp->type);

	*required = *optional = 0;
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return true;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (rules[i].from != from || rules[i].to != to || !rules[i].of[type].has)
			continue;
		*required = rules[i].of[type].required;
		*optional = rules[i].of[type].optional;
		if (to == IBV_QPS_RTS && qp->type != IBV_QPT_XRC_RECV)
			*optional |= IBV_QP_RATE_LIMIT;
		return true;
	}
	return false;
}

static int check_transition(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			    const struct ibv_qp_attr *attr, int mask)
{
	int required, optional, missing, forbidden;
	char names[NAMES_SIZE];

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
		return refuse(REASON_QP_CUR_STATE, "QP %#x is in %s, cur_qp_state says %s",
			      qp->number, qp_state_name(from), qp_state_name(attr->cur_qp_state));
	if (!find_rule(qp, from, to, &required, &optional))
		return refuse(REASON_QP_TRANSITION, "%s QP %#x from %s to %s", type_name(qp),
			      qp->number, qp_state_name(from), qp_state_name(to));
	missing = required & ~mask;
	if (missing)
		return refuse(REASON_QP_ATTR_MISSING, "%s QP %#x from %s to %s lacks %s",
			      type_name(qp), qp->number, qp_state_name(from), qp_state_name(to),
			      mask_names(missing, names));
	forbidden = mask & ~(required | optional | IBV_QP_STATE);
	if (forbidden)
		return refuse(REASON_QP_ATTR_FORBIDDEN, "%s QP %#x from %s to %s does not take %s",
			      type_name(qp), qp->number, qp_state_name(from), qp_state_name(to),
			      mask_names(forbidden, names));
	return 0;
}

/* A number with an upper bound: one line an attribute. */
static int check_numbers(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct {
		int bit;
		const char *name;
		uint32_t value, max;
	} numbers[] = {
	    {IBV_QP_TIMEOUT, "timeout", attr->timeout, MAX_TIMEOUT},
	    {IBV_QP_RETRY_CNT, "retry_cnt", attr->retry_cnt, MAX_RETRY},
	    {IBV_QP_RNR_RETRY, "rnr_retry", attr->rnr_retry, MAX_RETRY},
	    {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr->min_rnr_timer, MAX_RNR_TIMER},
	    {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, MAX_RD_ATOMIC},
	    {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr->max_dest_rd_atomic,
	     MAX_RD_ATOMIC},
	    {IBV_QP_DEST_QPN, "dest_qp_num", attr->dest_qp_num, MAX_QPN},
	    {IBV_QP_STATE, "qp_state", attr->qp_state, IBV_QPS_ERR},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (mask & numbers[i].bit && numbers[i].value > numbers[i].max)
			return refuse(REASON_QP_ATTR_RANGE, "QP %#x: %s is %u, at most %u",
				      qp->number, numbers[i].name, numbers[i].value,
				      numbers[i].max);
	return 0;
}

static int check_mtu(const struct qp *qp, enum ibv_mtu mtu)
{
	struct ibv_port_attr port;

	if (!is_mtu_code(mtu))
		return refuse(REASON_QP_ATTR_RANGE, "QP %#x: path_mtu is %d, a code from 1 to 5",
			      qp->number, mtu);
	port_describe(qp->adapter, &port);
	if (mtu > port.active_mtu)
		return refuse(REASON_QP_MTU, "QP %#x: path_mtu is %u bytes, %s has %u", qp->number,
			      mtu_bytes(mtu), qp->adapter->name, mtu_bytes(port.active_mtu));
	return 0;
}

/* What needs more than a comparison; resolves the P_Key and the address vector on the way. */
static int check_values(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			uint16_t *pkey, struct av *av)
{
	int ret = 0;

	if (mask & IBV_QP_PORT && attr->port_num != PORT_NUMBER)
		return refuse(REASON_QP_ATTR_RANGE, "QP %#x: port_num is %u, %s has port %u",
			      qp->number, attr->port_num, qp->adapter->name, PORT_NUMBER);
	if (mask & IBV_QP_PKEY_INDEX && port_pkey(&qp->adapter->port, attr->pkey_index, pkey))
		return refuse(REASON_QP_PKEY_INDEX, "QP %#x: pkey_index is %u", qp->number,
			      attr->pkey_index);
	if (mask & IBV_QP_ACCESS_FLAGS && attr->qp_access_flags & ~(unsigned int)ACCESS_KNOWN)
		return refuse(REASON_QP_ACCESS, "QP %#x: qp_access_flags is %#x", qp->number,
			      attr->qp_access_flags);
	if (mask & IBV_QP_ALT_PATH ||
	    (mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED))
		return refuse(REASON_QP_ALT_PATH, "QP %#x", qp->number);
	if (mask & IBV_QP_PATH_MTU)
		ret = check_mtu(qp, attr->path_mtu);
	if (!ret && mask & IBV_QP_AV)
		ret = av_resolve(qp->adapter, &attr->ah_attr, av);
	if (!ret && mask & IBV_QP_AV && gid_is_multicast(&av->dgid))
		ret = refuse(REASON_AV_MULTICAST, "QP %#x: grh.dgid is a multicast address",
			     qp->number);
	return ret;
}

static void take_over(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IBV_QP_QKEY)
		own->qkey = attr->qkey;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = qp->dest_qpn = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN) /* 24 bits; more are cut off, as the kernel does */
		own->rq_psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_RATE_LIMIT) {
		own->rate_limit = attr->rate_limit;
		qp->max_burst = DEFAULT_BURST;
	}
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn & PSN_MASK;
}

static void reset(struct qp *qp)
{
	uint32_t tail;

	spin_lock(&qp->sq.lock);
	tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
	atomic_store_explicit(&qp->sq.head, tail, memory_order_release);
	spin_unlock(&qp->sq.lock);
	recv_queue_clear(&qp->rq);
	qp_forget_completions(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->dest_qpn = 0;
	memset(&qp->av, 0, sizeof(qp->av));
	qp->pkey = 0;
	qp->mtu = 0;
	qp->is_draining = false;
	qp->has_communicated = false;
}

/* UD has no path MTU: the port's of this moment. */
static uint32_t mtu_of(const struct qp *qp)
{
	struct ibv_port_attr port;

	if (qp->type != IBV_QPT_UD && qp->type != IBV_QPT_RAW_PACKET)
		return mtu_bytes(qp->attr.path_mtu);
	port_describe(qp->adapter, &port);
	return mtu_bytes(port.active_mtu);
}

int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = atomic_load_explicit(&qp->state, memory_order_relaxed);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	struct av av = qp->av;
	uint16_t pkey = qp->pkey;
	int ret;

	ret = check_numbers(qp, attr, mask & IBV_QP_STATE);
	if (!ret)
		ret = check_transition(qp, from, to, attr, mask);
	if (!ret)
		ret = check_numbers(qp, attr, mask);
	if (!ret)
		ret = check_values(qp, attr, mask, &pkey, &av);
	if (ret)
		return ret;

	take_over(qp, attr, mask);
	qp->pkey = pkey;
	qp->av = av;
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		qp->mtu = mtu_of(qp);
	if (to == IBV_QPS_SQD && from != IBV_QPS_SQD)
		qp->is_draining = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
	/* Before the queues are emptied: who posts under their lock then sees it. */
	atomic_store_explicit(&qp->state, to, memory_order_release);
	if (to == IBV_QPS_RESET)
		reset(qp);
	qp_changed(qp);
	return 0;
}
