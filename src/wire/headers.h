/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of a RoCEv2 packet: for each a struct in host order, its size on the wire, and a pack
 * and unpack on byte arrays. Reserved bits go out as zero and are ignored when they come in (9.2).
 * Callers check lengths first: wire/parse.h does it for whole packets. For order and presence see
 * wire/opcode.h.
 */
#ifndef WIRE_HEADERS_H
#define WIRE_HEADERS_H

#include <stdbool.h>
#include "base/bytes.h"

enum {
	ROCE_PORT = 4791, /* UDP destination port of RoCEv2 */

	BTH_BYTES = 12,
	DETH_BYTES = 8,
	RETH_BYTES = 16,
	ATOMICETH_BYTES = 28,
	AETH_BYTES = 4,
	ATOMICACKETH_BYTES = 8,
	IMMDT_BYTES = 4,
	IETH_BYTES = 4,
	XRCETH_BYTES = 4,
	FETH_BYTES = 4,
	ICRC_BYTES = 4,
	GRH_BYTES = 40,

	ACK_BYTES = BTH_BYTES + AETH_BYTES, /* an ACKNOWLEDGE, all of it */
	CNP_PAYLOAD_BYTES = 16,
	ATOMIC_WRITE_BYTES = 8,
	/* The longest of all, an atomic over XRC. */
	HEADER_BYTES_MAX = BTH_BYTES + XRCETH_BYTES + ATOMICETH_BYTES,
	PAD_BYTES_MAX = 3,

	QPN_MASK = 0xffffff,
	PKEY_DEFAULT = 0xffff,
};

/* Base transport header, 9.2. */
struct bth {
	uint8_t opcode;
	uint8_t pad_count;
	uint8_t tver; /* transport header version, 0 */
	bool solicited;
	bool migreq;
	bool fecn;
	bool becn;
	bool ack_req;
	/* Of the six reserved bits beside FECN and BECN: */
	uint8_t
	    generation; /* of a sign by which ends of ours know each other (transport/recovery.h) */
	bool is_twice;	/* of a FLUSH: its ICRC is Soft-RoCE's (icrc.h) */
	uint16_t pkey;
	uint32_t dest_qp; /* 24 bits */
	uint32_t psn;	  /* 24 bits */
};

/* Its bits: in the second byte, */
enum { BTH_SOLICITED = 0x80, BTH_MIGREQ = 0x40, BTH_PAD = 0x30, BTH_PAD_SHIFT = 4 };
/* in the fifth, before the QP number, and in the ninth, before the PSN. */
enum { BTH_FECN = 0x80, BTH_BECN = 0x40, BTH_ACK_REQ = 0x80 };

static inline uint8_t bth_pad_count(const uint8_t *p)
{
	return (p[1] & BTH_PAD) >> BTH_PAD_SHIFT;
}

static inline void bth_pack(uint8_t *p, const struct bth *bth)
{
	p[0] = bth->opcode;
	p[1] =
	    bth->solicited << 7 | bth->migreq << 6 | (bth->pad_count & 3) << 4 | (bth->tver & 0xf);
	put_be16(p + 2, bth->pkey);
	put_be32(p + 4, (uint32_t)bth->fecn << 31 | (uint32_t)bth->becn << 30 |
			    (uint32_t)(bth->generation & 7) << 27 | (uint32_t)bth->is_twice << 24 |
			    (bth->dest_qp & QPN_MASK));
	put_be32(p + 8, (uint32_t)bth->ack_req << 31 | (bth->psn & QPN_MASK));
}

static inline void bth_unpack(struct bth *bth, const uint8_t *p)
{
	bth->opcode = p[0];
	bth->solicited = p[1] & BTH_SOLICITED;
	bth->migreq = p[1] & BTH_MIGREQ;
	bth->pad_count = bth_pad_count(p);
	bth->tver = p[1] & 0xf;
	bth->pkey = get_be16(p + 2);
	bth->fecn = p[4] & BTH_FECN;
	bth->becn = p[4] & BTH_BECN;
	bth->generation = p[4] >> 3 & 7;
	bth->is_twice = p[4] & 1;
	bth->dest_qp = get_be32(p + 4) & QPN_MASK;
	bth->ack_req = p[8] & BTH_ACK_REQ;
	bth->psn = get_be32(p + 8) & QPN_MASK;
}

static inline bool bth_is_twice(const uint8_t *p)
{
	return p[4] & 1;
}

/* Single fields of a packed BTH, for steering and for stamping a packet that is built already. */
static inline uint32_t bth_dest_qp(const uint8_t *p)
{
	return get_be32(p + 4) & QPN_MASK;
}

static inline uint32_t bth_psn(const uint8_t *p)
{
	return get_be32(p + 8) & QPN_MASK;
}

static inline bool bth_has_fecn(const uint8_t *p)
{
	return p[4] & BTH_FECN;
}

static inline void bth_set_psn(uint8_t *p, uint32_t psn)
{
	put_be24(p + 9, psn);
}

static inline void bth_set_ack_req(uint8_t *p)
{
	p[8] |= BTH_ACK_REQ;
}

/* Datagram extended transport header, 9.3.1. */
struct deth {
	uint32_t qkey;
	uint32_t src_qp; /* 24 bits */
};

static inline void deth_pack(uint8_t *p, const struct deth *deth)
{
	put_be32(p, deth->qkey);
	put_be32(p + 4, deth->src_qp & QPN_MASK);
}

static inline void deth_unpack(struct deth *deth, const uint8_t *p)
{
	deth->qkey = get_be32(p);
	deth->src_qp = get_be24(p + 5);
}

/* RDMA extended transport header, 9.3.3. */
struct reth {
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
};

static inline void reth_pack(uint8_t *p, const struct reth *reth)
{
	put_be64(p, reth->va);
	put_be32(p + 8, reth->rkey);
	put_be32(p + 12, reth->length);
}

static inline void reth_unpack(struct reth *reth, const uint8_t *p)
{
	reth->va = get_be64(p);
	reth->rkey = get_be32(p + 8);
	reth->length = get_be32(p + 12);
}

/* Atomic extended transport header, 9.3.4. */
struct atomiceth {
	uint64_t va;
	uint32_t rkey;
	uint64_t swap_add;
	uint64_t compare;
};

static inline void atomiceth_pack(uint8_t *p, const struct atomiceth *atomic)
{
	put_be64(p, atomic->va);
	put_be32(p + 8, atomic->rkey);
	put_be64(p + 12, atomic->swap_add);
	put_be64(p + 20, atomic->compare);
}

static inline void atomiceth_unpack(struct atomiceth *atomic, const uint8_t *p)
{
	atomic->va = get_be64(p);
	atomic->rkey = get_be32(p + 8);
	atomic->swap_add = get_be64(p + 12);
	atomic->compare = get_be64(p + 20);
}

/* Acknowledge extended transport header, 9.3.5; the syndrome is taken apart by wire/aeth.h. */
struct aeth {
	uint8_t syndrome;
	uint32_t msn; /* 24 bits */
};

static inline void aeth_pack(uint8_t *p, const struct aeth *aeth)
{
	p[0] = aeth->syndrome;
	put_be24(p + 1, aeth->msn);
}

static inline void aeth_unpack(struct aeth *aeth, const uint8_t *p)
{
	aeth->syndrome = p[0];
	aeth->msn = get_be24(p + 1);
}

/* Flush extended transport header: what to flush to (placement type) and how much (selectivity
 * level). */
struct feth {
	uint8_t type;  /* IBV_FLUSH_GLOBAL 1, IBV_FLUSH_PERSISTENT 2; 4 bits */
	uint8_t level; /* IBV_FLUSH_RANGE 0, IBV_FLUSH_MR 1; 2 bits */
};

static inline void feth_pack(uint8_t *p, const struct feth *feth)
{
	put_be32(p, (feth->level & 3) << 4 | (feth->type & 0xf));
}

static inline void feth_unpack(struct feth *feth, const uint8_t *p)
{
	feth->type = p[3] & 0xf;
	feth->level = p[3] >> 4 & 3;
}

/*
 * The headers of one number each: atomic acknowledge (original data, 64 bits), immediate data (the
 * program's own byte order: here as a big-endian number), invalidate (R_Key), XRC (SRQ number, 24
 * bits).
 */
static inline void atomicacketh_pack(uint8_t *p, uint64_t original)
{
	put_be64(p, original);
}

static inline uint64_t atomicacketh_unpack(const uint8_t *p)
{
	return get_be64(p);
}

static inline void immdt_pack(uint8_t *p, uint32_t imm)
{
	put_be32(p, imm);
}

static inline uint32_t immdt_unpack(const uint8_t *p)
{
	return get_be32(p);
}

static inline void ieth_pack(uint8_t *p, uint32_t rkey)
{
	put_be32(p, rkey);
}

static inline uint32_t ieth_unpack(const uint8_t *p)
{
	return get_be32(p);
}

static inline void xrceth_pack(uint8_t *p, uint32_t srqn)
{
	put_be32(p, srqn & QPN_MASK);
}

static inline uint32_t xrceth_unpack(const uint8_t *p)
{
	return get_be24(p + 1);
}

/* Global route header: what a UD receiver finds in the first 40 bytes of its buffer (an IPv6
 * header, 8.3). */
struct grh {
	uint8_t traffic_class;
	uint8_t next_header; /* 0x1b on InfiniBand, 17 (UDP) in RoCEv2 */
	uint8_t hop_limit;
	uint16_t payload_length;
	uint32_t flow_label; /* 20 bits */
	uint8_t sgid[16];
	uint8_t dgid[16];
};

void grh_pack(uint8_t *p, const struct grh *grh);
void grh_unpack(struct grh *grh, const uint8_t *p);

/*
 * The same area for a packet that came by IPv4: 20 zero bytes, then the IPv4 header with a right
 * checksum, as programs tell the two apart by it. The addresses are the last four bytes of the
 * GIDs; total_length counts the IP header.
 */
struct grh_ipv4 {
	uint8_t tos;
	uint8_t ttl;
	uint16_t total_length;
	uint16_t id;
	uint8_t saddr[4];
	uint8_t daddr[4];
};

void grh_ipv4_pack(uint8_t *p, const struct grh_ipv4 *grh);

#endif
