/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams of the connection manager, 12.6.4 to 12.6.16 and annex A11.
 */
#include "base/bytes.h"
#include "wire/mad.h"

enum { PATH_BYTES = 44, REQ_PRIMARY = 52, REQ_ALTERNATE = REQ_PRIMARY + PATH_BYTES };

/* Where private data starts behind the head, and its room. */
struct shape {
	const char *name;
	uint8_t offset, room;
};

static const struct shape shapes[] = {
    [CM_REQ - CM_REQ] = {"REQ", 140, REQ_ROOM},
    [CM_MRA - CM_REQ] = {"MRA", 10, MRA_ROOM},
    [CM_REJ - CM_REQ] = {"REJ", 84, REJ_ROOM},
    [CM_REP - CM_REQ] = {"REP", 36, REP_ROOM},
    [CM_RTU - CM_REQ] = {"RTU", 8, RTU_ROOM},
    [CM_DREQ - CM_REQ] = {"DREQ", 12, DREQ_ROOM},
    [CM_DREP - CM_REQ] = {"DREP", 8, DREP_ROOM},
    [CM_SIDR_REQ - CM_REQ] = {"SIDR_REQ", 16, SIDR_REQ_ROOM},
    [CM_SIDR_REP - CM_REQ] = {"SIDR_REP", 96, SIDR_REP_ROOM},
    [CM_LAP - CM_REQ] = {"LAP", 64, 168},
    [CM_APR - CM_REQ] = {"APR", 84, 148},
};

static const struct shape *shape_of(unsigned int attribute)
{
	return attribute >= CM_REQ && attribute <= CM_APR ? &shapes[attribute - CM_REQ] : NULL;
}

const char *cm_attribute_name(enum cm_attribute attribute)
{
	const struct shape *shape = shape_of(attribute);

	return shape ? shape->name : "?";
}

size_t cm_private_room(enum cm_attribute attribute)
{
	const struct shape *shape = shape_of(attribute);

	return shape ? shape->room : 0;
}

static void path_pack(uint8_t *p, const struct cm_mad_path *path)
{
	put_be16(p, path->local_lid);
	put_be16(p + 2, path->remote_lid);
	memcpy(p + 4, path->local_gid, 16);
	memcpy(p + 20, path->remote_gid, 16);
	put_be32(p + 36, path->flow_label << 12 | (path->rate & 0x3f));
	p[40] = path->traffic_class;
	p[41] = path->hop_limit;
	p[42] = path->sl << 4 | path->subnet_local << 3;
	p[43] = path->ack_timeout << 3;
}

static void path_unpack(struct cm_mad_path *path, const uint8_t *p)
{
	path->local_lid = get_be16(p);
	path->remote_lid = get_be16(p + 2);
	memcpy(path->local_gid, p + 4, 16);
	memcpy(path->remote_gid, p + 20, 16);
	path->flow_label = get_be32(p + 36) >> 12;
	path->rate = p[39] & 0x3f;
	path->traffic_class = p[40];
	path->hop_limit = p[41];
	path->sl = p[42] >> 4;
	path->subnet_local = p[42] >> 3 & 1;
	path->ack_timeout = p[43] >> 3;
}

static void req_pack(uint8_t *p, const struct cm_req *req)
{
	put_be24(p + 5, req->vendor);
	put_be64(p + 8, req->service_id);
	put_be64(p + 16, req->ca_guid);
	put_be32(p + 28, req->qkey);
	put_be24(p + 32, req->qpn);
	p[35] = req->responder_resources;
	p[39] = req->initiator_depth;
	p[43] = req->remote_response_timeout << 3 | (req->transport & 3) << 1 | req->flow_control;
	put_be24(p + 44, req->psn);
	p[47] = req->local_response_timeout << 3 | (req->retry_count & 7);
	put_be16(p + 48, req->pkey);
	p[50] = req->mtu << 4 | (req->rnr_retry_count & 7);
	p[51] = req->max_cm_retries << 4 | req->srq << 3 | (req->extended_transport & 7);
	path_pack(p + REQ_PRIMARY, &req->primary);
	path_pack(p + REQ_ALTERNATE, &req->alternate);
}

static void req_unpack(struct cm_req *req, const uint8_t *p)
{
	req->vendor = get_be24(p + 5);
	req->service_id = get_be64(p + 8);
	req->ca_guid = get_be64(p + 16);
	req->qkey = get_be32(p + 28);
	req->qpn = get_be24(p + 32);
	req->responder_resources = p[35];
	req->initiator_depth = p[39];
	req->remote_response_timeout = p[43] >> 3;
	req->transport = p[43] >> 1 & 3;
	req->flow_control = p[43] & 1;
	req->psn = get_be24(p + 44);
	req->local_response_timeout = p[47] >> 3;
	req->retry_count = p[47] & 7;
	req->pkey = get_be16(p + 48);
	req->mtu = p[50] >> 4;
	req->rnr_retry_count = p[50] & 7;
	req->max_cm_retries = p[51] >> 4;
	req->srq = p[51] >> 3 & 1;
	req->extended_transport = p[51] & 7;
	path_unpack(&req->primary, p + REQ_PRIMARY);
	path_unpack(&req->alternate, p + REQ_ALTERNATE);
}

static void rep_pack(uint8_t *p, const struct cm_rep *rep)
{
	put_be32(p + 8, rep->qkey);
	put_be24(p + 12, rep->qpn);
	p[15] = (uint8_t)(rep->vendor >> 16);
	put_be24(p + 16, rep->eecn);
	p[19] = (uint8_t)(rep->vendor >> 8);
	put_be24(p + 20, rep->psn);
	p[23] = (uint8_t)rep->vendor;
	p[24] = rep->responder_resources;
	p[25] = rep->initiator_depth;
	p[26] = rep->ack_delay << 3 | (rep->failover & 3) << 1 | rep->flow_control;
	p[27] = rep->rnr_retry_count << 5 | rep->srq << 4;
	put_be64(p + 28, rep->ca_guid);
}

static void rep_unpack(struct cm_rep *rep, const uint8_t *p)
{
	rep->qkey = get_be32(p + 8);
	rep->qpn = get_be24(p + 12);
	rep->eecn = get_be24(p + 16);
	rep->psn = get_be24(p + 20);
	rep->vendor = (uint32_t)p[15] << 16 | (uint32_t)p[19] << 8 | p[23];
	rep->responder_resources = p[24];
	rep->initiator_depth = p[25];
	rep->ack_delay = p[26] >> 3;
	rep->failover = p[26] >> 1 & 3;
	rep->flow_control = p[26] & 1;
	rep->rnr_retry_count = p[27] >> 5;
	rep->srq = p[27] >> 4 & 1;
	rep->ca_guid = get_be64(p + 28);
}

static void rej_pack(uint8_t *p, const struct cm_rej *rej)
{
	p[8] = rej->message << 6;
	p[9] = rej->additional_length << 1;
	put_be16(p + 10, rej->reason);
	memcpy(p + 12, rej->additional, ADDITIONAL_ROOM);
}

static void rej_unpack(struct cm_rej *rej, const uint8_t *p)
{
	rej->message = p[8] >> 6;
	rej->additional_length = p[9] >> 1;
	rej->reason = get_be16(p + 10);
	memcpy(rej->additional, p + 12, ADDITIONAL_ROOM);
}

static void sidr_rep_pack(uint8_t *p, const struct cm_sidr_rep *rep)
{
	p[4] = rep->status;
	p[5] = rep->additional_length;
	put_be24(p + 8, rep->qpn);
	put_be64(p + 12, rep->service_id);
	put_be32(p + 20, rep->qkey);
	memcpy(p + 24, rep->additional, ADDITIONAL_ROOM);
}

static void sidr_rep_unpack(struct cm_sidr_rep *rep, const uint8_t *p)
{
	rep->status = p[4];
	rep->additional_length = p[5];
	rep->qpn = get_be24(p + 8);
	rep->service_id = get_be64(p + 12);
	rep->qkey = get_be32(p + 20);
	memcpy(rep->additional, p + 24, ADDITIONAL_ROOM);
}

void cm_mad_pack(uint8_t *bytes, const struct cm_mad *mad)
{
	const struct shape *shape = shape_of(mad->attribute);
	uint8_t *p = bytes + MAD_HEAD_BYTES;

	memset(bytes, 0, MAD_BYTES);
	bytes[0] = 1; /* base version */
	bytes[1] = MAD_CLASS_CM;
	bytes[2] = MAD_CM_VERSION;
	bytes[3] = MAD_METHOD_SEND;
	put_be16(bytes + 4, mad->status);
	put_be64(bytes + 8, mad->transaction);
	put_be16(bytes + 16, mad->attribute);
	put_be32(bytes + 20, mad->options);
	put_be32(p, mad->local_id);
	if (mad->attribute != CM_SIDR_REQ && mad->attribute != CM_SIDR_REP &&
	    mad->attribute != CM_REQ)
		put_be32(p + 4, mad->remote_id);
	if (mad->attribute == CM_REQ)
		req_pack(p, &mad->req);
	else if (mad->attribute == CM_REP)
		rep_pack(p, &mad->rep);
	else if (mad->attribute == CM_REJ)
		rej_pack(p, &mad->rej);
	else if (mad->attribute == CM_DREQ)
		put_be24(p + 8, mad->dreq_qpn);
	else if (mad->attribute == CM_SIDR_REP)
		sidr_rep_pack(p, &mad->sidr_rep);
	else if (mad->attribute == CM_APR)
		p[9] = mad->apr.status;
	if (mad->attribute == CM_MRA) {
		p[8] = mad->mra.message << 6;
		p[9] = mad->mra.service_timeout << 3;
	}
	if (mad->attribute == CM_SIDR_REQ) {
		put_be16(p + 4, mad->sidr_req.pkey);
		put_be64(p + 8, mad->sidr_req.service_id);
	}
	if (mad->private_length && shape)
		memcpy(p + shape->offset, mad->private_data,
		       mad->private_length < shape->room ? mad->private_length : shape->room);
}

bool cm_mad_unpack(struct cm_mad *mad, const uint8_t *bytes, size_t length)
{
	const uint8_t *p = bytes + MAD_HEAD_BYTES;
	const struct shape *shape;

	memset(mad, 0, sizeof(*mad));
	if (length != MAD_BYTES || bytes[0] != 1 || bytes[1] != MAD_CLASS_CM ||
	    bytes[2] != MAD_CM_VERSION || bytes[3] != MAD_METHOD_SEND)
		return false;
	shape = shape_of(get_be16(bytes + 16));
	if (!shape)
		return false;
	mad->status = get_be16(bytes + 4);
	mad->transaction = get_be64(bytes + 8);
	mad->attribute = get_be16(bytes + 16);
	mad->options = get_be32(bytes + 20);
	mad->private_data = p + shape->offset;
	mad->private_length = shape->room;
	mad->local_id = get_be32(p);
	if (mad->attribute != CM_SIDR_REQ && mad->attribute != CM_SIDR_REP &&
	    mad->attribute != CM_REQ)
		mad->remote_id = get_be32(p + 4);
	if (mad->attribute == CM_REQ)
		req_unpack(&mad->req, p);
	else if (mad->attribute == CM_REP)
		rep_unpack(&mad->rep, p);
	else if (mad->attribute == CM_REJ)
		rej_unpack(&mad->rej, p);
	else if (mad->attribute == CM_DREQ)
		mad->dreq_qpn = get_be24(p + 8);
	else if (mad->attribute == CM_SIDR_REP)
		sidr_rep_unpack(&mad->sidr_rep, p);
	else if (mad->attribute == CM_APR)
		mad->apr.status = p[9];
	if (mad->attribute == CM_MRA) {
		mad->mra.message = p[8] >> 6;
		mad->mra.service_timeout = p[9] >> 3;
	}
	if (mad->attribute == CM_SIDR_REQ) {
		mad->sidr_req.pkey = get_be16(p + 4);
		mad->sidr_req.service_id = get_be64(p + 8);
	}
	return true;
}

void ip_cm_pack(uint8_t *bytes, const struct ip_cm *ip)
{
	bytes[0] = ip->version;
	bytes[1] = ip->ip_version << 4;
	put_be16(bytes + 2, ip->source_port);
	memcpy(bytes + 4, ip->source, 16);
	memcpy(bytes + 20, ip->destination, 16);
}

bool ip_cm_unpack(struct ip_cm *ip, const uint8_t *bytes)
{
	ip->version = bytes[0];
	ip->ip_version = bytes[1] >> 4;
	ip->source_port = get_be16(bytes + 2);
	memcpy(ip->source, bytes + 4, 16);
	memcpy(ip->destination, bytes + 20, 16);
	return ip->version == 0 && (ip->ip_version == 4 || ip->ip_version == 6);
}
