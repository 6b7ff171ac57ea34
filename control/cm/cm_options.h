// Limits and times of the connection manager.
#pragma once

#include <cstdint>

#include "base/core_share.h"
#include "base/prefix_table.h"
#include "base/time.h"
#include "control/cm/path_mtu.h"

namespace cw::cm {

struct CmOptions {
  // EUI-64 that names this node in REQ, REP and REJ; conventionally the MAC with ff:fe in its middle. Opaque to peers.
  uint64_t local_ca_guid = 0;

  // The low bits of our communication ids tell the core.
  CoreShare core;

  // Connections that live or are being set up or torn down, both roles together. About 300 bytes each, allocated at
  // construction.
  uint32_t connection_max = 1024;
  // Handshakes: attempts of both roles, and rejections that may have to be repeated, which take at most half. About 650 bytes
  // each, touched when they are needed. 0: two for each of connection_max. A passive side is served by twice half_open_max.
  uint32_t handshakes_at_once_max = 0;
  // Dead connections remembered on top of these, so that late duplicates are answered rightly. The oldest makes room for a new
  // connection, so this bounds memory and never refuses anybody. At 1000 connections a second and 4 s each none is cut short.
  uint32_t timewait_max = 1024;
  // Inbound requests not yet established, at least 1. Beyond it the network that holds the most of them gives up its oldest. At
  // the default request_rate a slot so lives nearly half a second at least; a peer that exists answers a REP within
  // milliseconds.
  uint32_t half_open_max = 512;
  // Services that listen() takes.
  uint32_t service_max = 16;
  // Datagrams waiting for poll_transmit(). When full the newest is dropped and counted; its timer or its peer repeats it.
  uint32_t transmit_queue_max = 256;

  // New REQs that are looked at, over all peers (and base/request_rates.h). Ten thousand clients reconnecting after a restart are
  // through in 10 s, helped by their own repetitions.
  RateLimit request_rate{.per_second = 1000, .burst = 500};
  // Answers that we owe to nobody in particular: to unknown connections, duplicates, refused requests. One datagram never yields
  // more than one, so this is about our own transmit capacity.
  RateLimit answer_rate{.per_second = 5000, .burst = 1000};

  // The same for each network of clients; whichever limit is met first counts.
  PrefixLimits prefix;

  // The largest packet payload of the local port. A REQ that wants more is rejected (REP has no field to lower it).
  PathMtu path_mtu_max = PathMtu::k4096;

  // Repetition of REQ, REP and DREQ: after `retransmit_first`, then doubling up to `retransmit_max` or the peer's CM response
  // time if that is shorter. Peers ask for 4.3 s (code 20), which is far too long to wait for the answer to one lost datagram;
  // sending earlier than that is harmless, since duplicates are recognised.
  Duration retransmit_first = Duration::ms(250);
  Duration retransmit_max = Duration::seconds(4);
  // An attempt to connect is given up after the peer's response time x (retries + 1), but within these bounds.
  Duration handshake_min = Duration::seconds(2);
  Duration handshake_max = Duration::seconds(30);
  // The upper bound for a peer that has not proved its address, since anybody can send a REQ in anybody's name: time for two of
  // the Linux kernel's repetitions, which come 4.3 s apart. Until then it gets so many REPs that it has not asked for, and more
  // only as answers to its repetitions: one forged REQ draws no more than these and one REJ to a stranger.
  Duration unproven_max = Duration::seconds(10);
  uint32_t unasked_replies_max = 3;
  // How long the user may take to accept() or reject() and, after delay(), once more that long per delay; or to call ready().
  Duration decision_max = Duration::seconds(10);
  // How much an MRA of the peer may extend the handshake: per message, and how many of them. Repetition goes on meanwhile, every
  // retransmit_max.
  Duration delay_max = Duration::seconds(30);
  uint32_t delay_count_max = 4;
  // How long DREQ is repeated before the peer is taken for dead.
  Duration disconnect_max = Duration::seconds(8);
  // Bounds of the time a dead connection is remembered; in between, twice the ACK time-out of the REQ.
  Duration timewait_min = Duration::seconds(2);
  Duration timewait_time_max = Duration::seconds(10);
};

}  // namespace cw::cm
