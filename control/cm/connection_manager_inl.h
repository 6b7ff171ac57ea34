// What all parts of the ConnectionManager use: reading, sending, telling the user. Included by its sources only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/assert.h"
#include "control/cm/connection_manager.h"

namespace cw::cm {

// How long an attempt may last, given what the REQ says about the peer's patience.
[[nodiscard]] inline Duration handshake_of(const CmOptions& options, Duration response, uint32_t retries) {
  return std::clamp(response * (int64_t{retries} + 1), options.handshake_min, options.handshake_max);
}

// The codecs cannot fail on the 232 bytes behind a MAD header.
template <typename Message>
[[nodiscard]] Message parse_whole(Bytes message) {
  return Message::parse(message).value();
}

// A queue pair that a connection can have: neither of the management ones, nor the multicast one.
[[nodiscard]] inline bool is_connected_qpn(verbs::Qpn qpn) {
  return qpn.value() > 1 && qpn.value() < 0xff'ffff;
}

template <typename Message>
bool ConnectionManager::send(const CmAddress& to, uint64_t transaction_id, const Message& message) {
  Mad mad;
  write_mad(mad, transaction_id, message);
  return enqueue(to, mad);
}

template <typename Message>
void ConnectionManager::send_and_keep(Connection& connection, uint64_t transaction_id, const Message& message) {
  CW_DASSERT(connection.handshake != nullptr);
  Mad& mad = connection.handshake->mad;
  write_mad(mad, transaction_id, message);
  connection.kept = Kept::kMad;
  // A full queue is a lost datagram like any other: the timer, or the peer's repetition, makes up for it.
  (void)enqueue(connection.address, mad);
}

template <typename Message>
void ConnectionManager::answer(const Arrival& arrival, const Message& message) {
  if (const CmDrop refusal = take_answer(arrival.now, arrival.from); refusal != CmDrop::kCount) {
    drop(refusal);
    return;
  }
  (void)send(arrival.from, arrival.transaction_id, message);
}

template <typename Message>
void ConnectionManager::drop_and_answer(const Arrival& arrival, CmDrop reason, const Message& message) {
  drop(reason);
  if (take_answer(arrival.now, arrival.from) == CmDrop::kCount) {
    (void)send(arrival.from, arrival.transaction_id, message);
  }
}

template <typename Detail>
void ConnectionManager::post(Connection& connection, const Detail& detail) {
  if constexpr (std::is_constructible_v<decltype(connection.brief), const Detail&>) {
    connection.brief = detail;
    connection.detail_kept = false;
  } else {
    CW_DASSERT(connection.handshake != nullptr);
    connection.handshake->detail = detail;
    connection.detail_kept = true;
  }
  if (!connection.has_event()) {
    events_.push_back(connection);
  }
  trim(connection);
}

// Ends with an event, unless the user never heard of the connection.
template <typename Detail>
void ConnectionManager::end(Instant now, Connection& connection, CmOutcome outcome, const Detail& detail) {
  if (connection.was_announced) {
    post(connection, detail);
  } else {
    connection.ListNode<PendingEventTag>::unlink_if_linked();
    connection.detail_kept = false;
  }
  end(now, connection, outcome);
}

}  // namespace cw::cm
