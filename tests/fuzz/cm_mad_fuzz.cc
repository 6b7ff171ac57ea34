// Management datagrams against a connection manager with a connection in each of its states. The first byte names the state;
// then come messages: right ones with some bytes bent, or raw, and new requests of several networks, more than may be half open.
// After each the tables are consistent and the bounds hold, and a REQ has ended nothing but what had to make room; in the end
// everything can be ended.
//
// Input: [state] and records of [what][who and then][length][length bytes].
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "control/cm/connection_manager.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rtu.h"
#include "control/cm/wire/sidr.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::cm {
namespace {

constexpr size_t kInputBytesMax = 512;
constexpr uint32_t kPeerCommId = 0x1234'5678;
constexpr uint64_t kTransaction = 77;
constexpr verbs::Qpn kPeerQpn{0x99};
constexpr verbs::Qpn kOurQpn{0x55};

CmOptions small_options() {
  CmOptions options;
  options.connection_max = 8;
  options.timewait_max = 4;
  options.half_open_max = 4;
  options.prefix.half_open_max = 3;
  options.prefix.prefix_max = 16;
  options.transmit_queue_max = 16;
  return options;
}

class Target {
 public:
  Target() : random_(1), manager_(small_options(), random_) {
    peer_.local = IpAddress::v4(0x0a090001);
    peer_.remote = IpAddress::v4(0x0a090002);
    peer_.remote_qpn = verbs::Qpn(1);
    FUZZ_CHECK(manager_.listen(ip_service_id(20049)).ok());
  }

  // Brings one connection into the state, from the passive or, where there is a choice, from the active side.
  void reach(ConnectionState state, bool active) {
    const bool only_active =
        state == ConnectionState::kReqSent || state == ConnectionState::kMraReqRcvd || state == ConnectionState::kRepRcvd;
    const bool only_passive = state == ConnectionState::kReqRcvd || state == ConnectionState::kMraReqSent ||
                              state == ConnectionState::kRepSent || state == ConnectionState::kMraRepRcvd;
    if (only_active || (active && !only_passive)) {
      reach_active(state);
    } else {
      reach_passive(state);
    }
    FUZZ_CHECK(manager_.state_of(*id_) == state);
  }

  void act(uint8_t what, uint8_t who, Bytes raw) {
    CmAddress from = peer_;
    if ((who & 1) != 0) {
      from.remote = IpAddress::v4(0x0a090003);
    }
    Mad mad = message(what);
    if (what % 16 == 12) {
      from.remote = IpAddress::v4(0x0a0a0000 + (uint32_t{what} >> 4) * 0x80);  // two of each network
      mad = mad_of(request(from, kPeerCommId + 2 + strangers_++));
    }
    if (what % 16 == 15) {
      std::copy(raw.begin(), raw.end(), mad.begin());
    } else {
      for (; raw.size() >= 2; raw = raw.subspan(2)) {
        mad[raw[0]] = raw[1];
      }
    }
    const uint64_t ended = ended_otherwise();
    manager_.on_mad(now_, from, mad);
    FUZZ_CHECK(message_type_of(load_be16(mad.data() + 16)) != MessageType::kReq || ended_otherwise() == ended);
    now_ = now_ + Duration::us(int64_t{1} << ((who >> 4) * 2));  // 1 us to 18 minutes
    manager_.on_deadline(now_);
    settle((who >> 1) & 7);
    FUZZ_CHECK(manager_.is_consistent());
    FUZZ_CHECK(manager_.half_open_count() <= 4 && manager_.live_count() <= 8);
  }

  void end() {
    for (uint32_t round = 0; round < 64 && (manager_.live_count() > 0 || round == 0); ++round) {
      for (const ConnectionId id : known_) {
        manager_.disconnect(now_, id);
      }
      settle(0);
      now_ = now_ + Duration::seconds(60);
      manager_.on_deadline(now_);
    }
    settle(0);
    FUZZ_CHECK(manager_.live_count() == 0 && manager_.half_open_count() == 0);
    FUZZ_CHECK(manager_.is_consistent());
  }

 private:
  // Connections that ended, but for those that made room: half open, or with a DREQ that nobody answers.
  [[nodiscard]] uint64_t ended_otherwise() const {
    const CmStats& stats = manager_.stats();
    return std::accumulate(stats.outcomes.begin(), stats.outcomes.end(), uint64_t{0}) - stats.ended(CmOutcome::kEvicted) -
           stats.ended(CmOutcome::kUnanswered);
  }
  void reach_passive(ConnectionState state) {
    give(request(peer_, kPeerCommId));
    settle(0);
    if (state == ConnectionState::kReqRcvd) {
      return;
    }
    if (state == ConnectionState::kMraReqSent) {
      (void)manager_.delay(now_, *id_, Duration::seconds(1));
      return;
    }
    accept(*id_);
    settle(0);
    if (state == ConnectionState::kRepSent) {
      return;
    }
    if (state == ConnectionState::kMraRepRcvd) {
      give(Mra{.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id_, .about = AboutMessage::kRep});
      return;
    }
    give(Rtu{.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id_});
    finish(state);
  }
  void reach_active(ConnectionState state) {
    ConnectParameters parameters;
    parameters.local_qpn = kOurQpn;
    const auto id = manager_.connect(now_, peer_, ip_service_id(20049), parameters);
    FUZZ_CHECK(id.ok());
    know(*id);
    settle(0);
    if (state == ConnectionState::kReqSent) {
      return;
    }
    if (state == ConnectionState::kMraReqRcvd) {
      give(Mra{.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id_, .about = AboutMessage::kReq});
      return;
    }
    give(reply());
    settle(0);
    if (state == ConnectionState::kRepRcvd) {
      return;
    }
    FUZZ_CHECK(manager_.ready(now_, *id_).ok());
    finish(state);
  }
  // From established on both sides are alike.
  void finish(ConnectionState state) {
    settle(0);
    if (state == ConnectionState::kEstablished) {
      return;
    }
    manager_.disconnect(now_, *id_);
    settle(0);
    if (state == ConnectionState::kTimewait) {
      give(Drep{.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id_});
      settle(0);
    }
  }

  [[nodiscard]] static Req request(const CmAddress& from, uint32_t comm_id) {
    Req req;
    req.local_comm_id = comm_id;
    req.service = ip_service_id(20049);
    req.local_qpn = kPeerQpn;
    req.path_mtu = PathMtu::k1024;
    req.local_response_code = 16;
    req.max_cm_retries = 3;
    req.primary.local_gid = from.remote;
    req.primary.remote_gid = from.local;
    const IpCmHeader header{.source_port = 1000, .source = from.remote, .destination = from.local};
    header.write(std::span<uint8_t, kReqPrivateDataSize>(req.private_data).first<IpCmHeader::kSize>());
    return req;
  }
  [[nodiscard]] Rep reply() const {
    Rep rep;
    rep.local_comm_id = kPeerCommId;
    rep.remote_comm_id = our_comm_id_;
    rep.local_qpn = kPeerQpn;
    return rep;
  }
  template <typename Message>
  [[nodiscard]] static Mad mad_of(const Message& message) {
    Mad mad;
    write_mad(mad, kTransaction, message);
    return mad;
  }
  // A message that fits the connection.
  [[nodiscard]] Mad message(uint8_t what) const {
    const uint32_t ours = our_comm_id_;
    switch (what % 16) {
      case 0:
        return mad_of(request(peer_, kPeerCommId));
      case 1:
        return mad_of(request(peer_, kPeerCommId + 1));
      case 2:
        return mad_of(reply());
      case 3:
        return mad_of(Rtu{.local_comm_id = kPeerCommId, .remote_comm_id = ours});
      case 4:
        return mad_of(Mra{.local_comm_id = kPeerCommId, .remote_comm_id = ours, .about = AboutMessage::kReq});
      case 5:
        return mad_of(Mra{.local_comm_id = kPeerCommId, .remote_comm_id = ours, .about = AboutMessage::kRep});
      case 6:
        return mad_of(Rej{.local_comm_id = kPeerCommId, .remote_comm_id = ours});
      case 7:
        return mad_of(Rej{.local_comm_id = kPeerCommId});
      case 8:
        return mad_of(Dreq{.local_comm_id = kPeerCommId, .remote_comm_id = ours, .remote_qpn = kOurQpn});
      case 9:
        return mad_of(Drep{.local_comm_id = kPeerCommId, .remote_comm_id = ours});
      case 10:
        return mad_of(Lap{.local_comm_id = kPeerCommId, .remote_comm_id = ours});
      case 11:
        return mad_of(SidrReq{});
      default:
        return Mad{};
    }
  }
  template <typename Message>
  void give(const Message& message) {
    manager_.on_mad(now_, peer_, mad_of(message));
  }
  void accept(ConnectionId id) {
    AcceptParameters parameters;
    parameters.local_qpn = kOurQpn;
    (void)manager_.accept(now_, id, parameters);
  }
  void know(ConnectionId id) {
    id_ = id;
    known_[known_count_++ % known_.size()] = id;
  }
  // The user acts on what it is told: accepts, rejects, delays, disconnects or does nothing, by `mood`.
  void settle(uint32_t mood) {
    CmEvent event;
    while (manager_.poll_event(event)) {
      if (event.as<ConnectRequest>() != nullptr) {
        know(event.connection);
        if (mood == 1) {
          accept(event.connection);
        } else if (mood == 2) {
          (void)manager_.reject(now_, event.connection, RejectReason::kNoResources);
        } else if (mood == 3) {
          (void)manager_.delay(now_, event.connection, Duration::seconds(5));
        }
      } else if (event.as<ConnectReply>() != nullptr && mood == 1) {
        (void)manager_.ready(now_, event.connection);
      }
      if (mood == 4) {
        manager_.disconnect(now_, event.connection);
      } else if (mood == 5) {
        manager_.data_arrived(now_, event.connection);
      }
    }
    CmDatagram datagram;
    while (manager_.poll_transmit(datagram)) {
      const MessageType type = type_of(datagram.mad);
      if (type == MessageType::kReq || type == MessageType::kRep) {
        our_comm_id_ = load_be32(message_of(datagram.mad).data());
      }
    }
  }

  SeededRandom random_;
  ConnectionManager manager_;
  CmAddress peer_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::optional<ConnectionId> id_;
  std::array<ConnectionId, 256> known_{};  // more than an input can make: none is forgotten while it lives
  uint32_t known_count_ = 0;
  uint32_t our_comm_id_ = 0;
  uint32_t strangers_ = 0;
};

}  // namespace
}  // namespace cw::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > cw::cm::kInputBytesMax) {
    return 0;
  }
  cw::cm::Target target;
  constexpr uint32_t kStates = static_cast<uint32_t>(cw::cm::ConnectionState::kCount) - 1;  // kIdle has no connection
  target.reach(static_cast<cw::cm::ConnectionState>(1 + (data[0] & 0x7f) % kStates), (data[0] & 0x80) != 0);
  for (cw::Bytes input(data + 1, size - 1); input.size() >= 3;) {
    const size_t length = std::min<size_t>(input[2], input.size() - 3);
    target.act(input[0], input[1], input.subspan(3, length));
    input = input.subspan(3 + length);
  }
  target.end();
  return 0;
}
