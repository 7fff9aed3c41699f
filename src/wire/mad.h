/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams of the connection manager: chapter 12.6 of the specification. For each
 * message a struct in host order, pack and unpack on byte arrays. A MAD is 256 bytes, 24 of them
 * its head; private data is always sent in full, zeros behind what was given. And the header that
 * RDMA-CM (annex A11) puts in front of the private data of REQ and SIDR_REQ: which addresses and
 * which port mean the connection.
 */
#ifndef WIRE_MAD_H
#define WIRE_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAD_BYTES = 256,
	MAD_HEAD_BYTES = 24,
	MAD_CLASS_CM = 7,
	MAD_CM_VERSION = 2,
	MAD_METHOD_SEND = 3,

	/* private data */
	REQ_ROOM = 92,
	MRA_ROOM = 222,
	REJ_ROOM = 148,
	REP_ROOM = 196,
	RTU_ROOM = 224,
	DREQ_ROOM = 220,
	DREP_ROOM = 224,
	SIDR_REQ_ROOM = 216,
	SIDR_REP_ROOM = 136,
	ADDITIONAL_ROOM = 72, /* what explains a rejection */

	IP_CM_BYTES = 36, /* of the RDMA-CM header */
};

#define GSI_QKEY UINT32_C(0x80010000)

enum cm_attribute {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
	CM_LAP,
	CM_APR,
};

/* 12.6.7.2 */
enum cm_rej_reason {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_UNSUPPORTED = 5,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_CONSUMER = 28,
};

enum cm_rejected { CM_REJECTED_REQ, CM_REJECTED_REP, CM_REJECTED_OTHER };

enum cm_sidr_status {
	CM_SIDR_VALID,
	CM_SIDR_UNSUPPORTED,
	CM_SIDR_REJECTED,
	CM_SIDR_NO_QP,
};

enum { CM_APR_UNSUPPORTED = 2 };

/* A path as REQ has it. */
struct cm_mad_path {
	uint16_t local_lid, remote_lid; /* 0xffff on RoCE */
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl, ack_timeout;
	bool subnet_local;
};

struct cm_req {
	uint64_t service_id, ca_guid;
	uint32_t qkey, qpn, psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_response_timeout, local_response_timeout; /* 4.096 us x 2^n */
	uint8_t transport;					 /* 0 RC, 1 UC, 3 see extended */
	uint8_t extended_transport;				 /* 1 XRC */
	uint8_t retry_count, rnr_retry_count, max_cm_retries;
	uint8_t mtu; /* enum ibv_mtu */
	bool flow_control, srq;
	uint16_t pkey;
	struct cm_mad_path primary, alternate;
	uint32_t vendor; /* who offers the options of the message: enhanced connections (ECE) */
};

struct cm_mra {
	enum cm_rejected message;
	uint8_t service_timeout;
};

struct cm_rej {
	enum cm_rejected message;
	uint16_t reason;
	uint8_t additional_length;
	uint8_t additional[ADDITIONAL_ROOM];
};

struct cm_rep {
	uint64_t ca_guid;
	uint32_t qkey, qpn, psn;
	uint32_t eecn; /* the QP of an XRC target */
	uint8_t responder_resources, initiator_depth, ack_delay, failover, rnr_retry_count;
	bool flow_control, srq;
	uint32_t vendor;
};

struct cm_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct cm_sidr_rep {
	uint8_t status, additional_length;
	uint32_t qpn, qkey;
	uint64_t service_id;
	uint8_t additional[ADDITIONAL_ROOM];
};

struct cm_apr {
	uint8_t status;
};

struct cm_mad {
	uint64_t transaction;
	uint16_t status;
	uint32_t options; /* of ECE: the attribute's modifier */
	enum cm_attribute attribute;
	uint32_t local_id, remote_id; /* SIDR: the request's is local_id in both */
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		uint32_t dreq_qpn;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
		struct cm_apr apr;
	};
	const uint8_t *private_data; /* unpacked: in the message itself */
	size_t private_length;	     /* to pack: how much there is, at most the room */
};

/* Fills all MAD_BYTES. */
void cm_mad_pack(uint8_t *bytes, const struct cm_mad *mad);

/* False if it is none of the connection manager's, or of an attribute that is not above. */
bool cm_mad_unpack(struct cm_mad *mad, const uint8_t *bytes, size_t length);

/* "REQ" */
const char *cm_attribute_name(enum cm_attribute attribute);

/* Room for private data, 0 for what has none. */
size_t cm_private_room(enum cm_attribute attribute);

struct ip_cm {
	uint8_t version;    /* 0 */
	uint8_t ip_version; /* 4 or 6 */
	uint16_t source_port;
	uint8_t source[16], destination[16]; /* IPv4: the last four bytes */
};

void ip_cm_pack(uint8_t *bytes, const struct ip_cm *ip);
/* False if its version is not ours. */
bool ip_cm_unpack(struct ip_cm *ip, const uint8_t *bytes);

#endif
