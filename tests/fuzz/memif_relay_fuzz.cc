// The life of a memif link as its relay decides it (MemifLink), in both roles, with sockets, a driver and poll cores played here:
// ends that knock, speak out of turn, lie, stall, leave at any point and come again; a driver that refuses, is slow, or cannot be
// reached; cores that take their time to hand the device over. No core uses a device whose driver has taken the rings away; the
// driver never hears of an end before the cores have let go; a connection to the driver serves one end; no handshake takes longer
// than it may; and in the end an honest end gets its link.
//
// The driver does what DPDK's does (22.11), on a thread of its own: it may be slow to act on what has been passed to it.
//
// Input: [start] and pairs [what][how]. Of `start` bit 0: our driver has the server role; bit 1: two cores;
// bit 2: the driver takes its time to map and unmap rings.
#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "dataplane/dpdk/memif_link.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/dataplane/memif_messages.h"

namespace cw::dataplane {
namespace {

using End = MemifLink::End;
using State = MemifLink::State;

constexpr size_t kInputBytesMax = 1024;

struct Item {
  memif::Message message{};
  size_t size = MemifHandshake::kMessageBytes;
  std::optional<uint64_t> file_bytes;
};

Item plain(uint16_t type) {
  return {.message = memif::message_of(type)};
}
Item ring(bool client_to_server) {
  const memif::Ring one{.client_to_server = client_to_server, .offset = client_to_server ? 0 : memif::kRingBytes};
  return {.message = memif::add_ring(one), .file_bytes = 0};
}

// An end of the protocol that keeps to it: our driver, or an honest driver at the other end.
class Party {
 public:
  explicit Party(bool server) : server_(server) {
    if (server) {
      says(plain(MemifHandshake::kHello));
    }
  }
  // What it has to say is in its socket, and can be read when it has closed too.
  std::deque<Item> outbox;
  std::deque<Item> inbox;  // has not been acted upon
  bool has_closed = false;
  bool hears_the_end = false;
  bool has_rings = false;  // mapped

  void says(const Item& item) { outbox.push_back(item); }
  void hear(Bytes message) {
    switch (MemifHandshake::type_of(message)) {
      case MemifHandshake::kDisconnect:
        close();
        break;
      case MemifHandshake::kConnected:
        has_rings = !server_;
        break;
      case MemifHandshake::kConnect:
        if (server_) {
          has_rings = true;
          says(plain(MemifHandshake::kConnected));
        }
        break;
      case MemifHandshake::kHello:
      case MemifHandshake::kAck:
        ask_next();
        break;
      default:
        if (server_) {
          says(plain(MemifHandshake::kAck));
        }
        break;
    }
  }
  void close() {
    has_closed = true;
    has_rings = false;
  }

 private:
  void ask_next() {
    const std::array<Item, 5> all{plain(MemifHandshake::kInit),
                                  Item{.message = memif::add_region(0), .file_bytes = memif::kRegionBytes}, ring(true),
                                  ring(false), plain(MemifHandshake::kConnect)};
    if (!server_ && asked_ < all.size()) {
      says(all[asked_++]);
    }
  }

  bool server_;
  uint32_t asked_ = 0;
};

class Rig final : private MemifLink::Ends {
 public:
  explicit Rig(uint8_t start)
      : server_((start & 1) != 0),
        leases_((start & 2) != 0 ? 2 : 1),
        cores_((start & 2) != 0 ? 2 : 1),
        driver_is_slow_((start & 4) != 0) {
    leases_.take_unused();
    if (!server_) {
      peer_.emplace(true);  // called before the link began
    }
    deadline_ = link_.deadline(now_);
  }

  void act(uint8_t what, uint8_t how) {
    switch (what % 10) {
      case 0:
        there_ = how < 0xf0;
        line_ = std::min(line_ + 1, 4u);
        break;
      case 1:
        lie(how);
        break;
      case 2:
        if (peer_) {
          peer_->close();
        }
        break;
      case 3:
      case 4:
        for (uint32_t i = 0; i < 1u + how % 8; ++i) {
          turn();
        }
        break;
      case 5:
        // As far as CONNECT.
        asked_to_connect_ = false;
        for (uint32_t i = 0; i < 16 && !asked_to_connect_; ++i) {
          turn();
        }
        break;
      case 6:
        now_ = now_ + Duration::ms(int64_t{1} << (how % 11));
        turn();
        break;
      case 7:
        use(how % cores_);
        break;
      case 8:
        move_driver(how);
        break;
      default:
        is_welcome_ = (how & 1) == 0;
        driver_answers_ = (how & 2) == 0;
        peer_takes_ = (how & 4) == 0;
        driver_is_slow_ = (how & 8) != 0;
        break;
    }
  }

  // Whoever is there goes, everybody does his work, and the next end is an honest one.
  void finish() {
    is_welcome_ = driver_answers_ = peer_takes_ = there_ = true;
    driver_is_slow_ = false;
    line_ = 0;
    if (peer_) {
      peer_->close();
    }
    settle(State::kUp, false);
    FUZZ_CHECK(link_.state() != State::kUp && link_.state() != State::kTaking && leases_.are_keepers());
    line_ = 1;
    settle(State::kUp, true);
    FUZZ_CHECK(link_.state() == State::kUp);
    for (uint32_t core = 0; core < cores_; ++core) {
      FUZZ_CHECK(leases_.of(core).is_cores());
      use(core);
    }
  }

 private:
  [[nodiscard]] std::optional<Party>& party(End end) { return end == End::kPeer ? peer_ : driver_; }
  [[nodiscard]] static bool is_readable(const std::optional<Party>& party) {
    return party && (!party->outbox.empty() || party->has_closed);
  }

  void turn() {
    while (driver_ && !driver_->inbox.empty() && !is_slow_at(driver_->inbox.front())) {
      work_driver();
    }
    const MemifLink::Ready watched = link_.watched();
    FUZZ_CHECK((!watched.peer || peer_) && (!watched.driver || driver_));
    const MemifLink::Ready ready{.listener = watched.listener && (server_ ? line_ > 0 : driver_knocks_),
                                 .peer = watched.peer && is_readable(peer_),
                                 .driver = watched.driver && is_readable(driver_)};
    if (!ready.any() && now_ < deadline_) {
      return;
    }
    const State before = link_.state();
    link_.advance(now_, ready);
    deadline_ = link_.deadline(now_);
    if (link_.state() == State::kHandshake && before != State::kHandshake) {
      handshake_began_ = now_;
    }
    // It had its turn at its end: nothing of it is left.
    FUZZ_CHECK(link_.state() != State::kHandshake || now_ < handshake_began_ + MemifLink::kHandshakeMax);
    FUZZ_CHECK((link_.state() == State::kUp || link_.state() == State::kTaking) || leases_.are_keepers());
  }
  // Until the state is reached, or (not `wanted`) left for good.
  void settle(State state, bool wanted) {
    for (uint32_t i = 0; i < 200 && (!wanted || link_.state() != state); ++i) {
      for (uint32_t core = 0; core < cores_; ++core) {
        use(core);
      }
      if (driver_ && driver_->hears_the_end) {
        take_rings_away();
      }
      driver_knocks_ = driver_knocks_ || (may_knock_ && !driver_);
      now_ = now_ + Duration::ms(wanted ? 1 : 20);
      turn();
      if (!wanted && peer_ && link_.state() == State::kHandshake) {
        peer_->close();
      }
    }
  }
  void use(uint32_t core) {
    if (leases_.of(core).use()) {
      FUZZ_CHECK(driver_ && !driver_->has_closed && !driver_->hears_the_end);
    }
  }
  // One message. When it ends the driver's connection, the rings are unmapped there and then: no core may be in a burst.
  void work_driver() {
    const Item item = driver_->inbox.front();
    driver_->inbox.pop_front();
    const bool had_rings = driver_->has_rings;
    driver_->hear(Bytes(item.message).first(item.size));
    FUZZ_CHECK(!had_rings || driver_->has_rings || leases_.are_keepers());
    if (driver_->has_closed) {
      driver_->inbox.clear();
    }
  }
  [[nodiscard]] bool is_slow_at(const Item& item) const {
    const uint16_t type = MemifHandshake::type_of(item.message);
    return driver_is_slow_ && (type == MemifHandshake::kConnect || type == MemifHandshake::kDisconnect);
  }
  void work_all() {
    while (driver_ && !driver_->inbox.empty()) {
      work_driver();
    }
  }
  void take_rings_away() {
    work_all();
    FUZZ_CHECK(!driver_->has_rings || leases_.are_keepers());
    driver_->close();
  }
  void move_driver(uint8_t how) {
    if (!driver_) {
      driver_knocks_ = driver_knocks_ || may_knock_;
    } else if (!driver_->inbox.empty()) {
      work_driver();
    } else if (driver_->hears_the_end) {
      take_rings_away();
    } else if (how >= 0xe0 && !driver_->has_rings && !driver_->has_closed) {
      driver_->says(plain(MemifHandshake::kDisconnect));  // something is not to its liking
      driver_->close();
    }
  }
  // What the other end says besides, or instead of, what it should.
  void lie(uint8_t how) {
    if (!peer_ || peer_->has_closed || peer_->outbox.size() > 8) {
      return;
    }
    Item item = how % 10 == MemifHandshake::kAddRegion ? Item{.message = memif::add_region(how >> 6), .file_bytes = 4096}
                : how % 10 == MemifHandshake::kAddRing ? ring((how & 0x80) != 0)
                                                       : plain(how % 10);
    if ((how & 0x40) != 0) {
      item.file_bytes = how;
    }
    if (how >= 0xf8) {
      item.size = how - 0xf0;
    }
    if ((how & 0x20) != 0) {
      peer_->outbox.clear();
    }
    peer_->says(item);
  }

  // MemifLink::Ends
  [[nodiscard]] bool accept(End end) override {
    FUZZ_CHECK(server_ == (end == End::kPeer) && !party(end) && (server_ ? line_ > 0 : driver_knocks_));
    if (server_) {
      --line_;
    } else {
      driver_knocks_ = false;
      may_knock_ = false;
    }
    if (server_ && !is_welcome_) {
      return false;
    }
    party(end).emplace(false);  // who calls is the client
    return true;
  }
  [[nodiscard]] bool connect(End end) override {
    FUZZ_CHECK(server_ == (end == End::kDriver) && !party(end));
    if (server_ ? !driver_answers_ : !there_ || !is_welcome_) {
      return false;
    }
    party(end).emplace(true);
    return true;
  }
  [[nodiscard]] std::optional<MemifLink::Received> receive(End from) override {
    std::optional<Party>& speaker = party(from);
    FUZZ_CHECK(is_readable(speaker));
    taken_.reset();
    if (speaker->outbox.empty()) {
      return std::nullopt;
    }
    taken_ = speaker->outbox.front();
    taken_from_ = from;
    speaker->outbox.pop_front();
    return MemifLink::Received{.message = Bytes(taken_->message).first(taken_->size), .file_bytes = taken_->file_bytes};
  }
  [[nodiscard]] bool pass_on(End to) override {
    FUZZ_CHECK(party(to) && taken_ && taken_from_ != to);
    asked_to_connect_ = asked_to_connect_ || MemifHandshake::type_of(taken_->message) == MemifHandshake::kConnect;
    if (party(to)->has_closed || (to == End::kPeer && !peer_takes_)) {
      return false;
    }
    if (to == End::kDriver) {
      FUZZ_CHECK(!driver_->hears_the_end && leases_.are_keepers());  // whatever it hears may make it take the rings away
      driver_->inbox.push_back(*taken_);
    } else {
      peer_->hear(Bytes(taken_->message).first(taken_->size));
    }
    return true;
  }
  void close(End end) override {
    FUZZ_CHECK(end == End::kPeer || (driver_ && driver_->has_closed && leases_.are_keepers()));
    party(end).reset();
  }
  void shut_down_driver() override {
    FUZZ_CHECK(driver_ && !peer_ && leases_.are_keepers());
    driver_->hears_the_end = true;
  }
  void refuse(const char* reason) override { FUZZ_CHECK(reason != nullptr && link_.state() == State::kHandshake); }
  void restart_driver() override {
    FUZZ_CHECK(!server_ && !driver_ && leases_.are_keepers());
    may_knock_ = true;
  }

  bool server_;
  DeviceLeases leases_;
  uint32_t cores_;
  MemifLink link_{server_, leases_, *this};
  Instant now_ = Instant::from_ns(1'000'000'000);
  Instant deadline_;
  Instant handshake_began_;
  std::optional<Party> peer_;
  std::optional<Party> driver_;
  std::optional<Item> taken_;
  End taken_from_ = End::kPeer;
  bool asked_to_connect_ = false;
  uint32_t line_ = 0;           // server role: ends that knock
  bool there_ = true;           // client role: the server listens
  bool may_knock_ = true;       // client role: the driver has been started
  bool driver_knocks_ = false;  // client role
  bool is_welcome_ = true;
  bool driver_answers_ = true;  // server role: it can be reached
  bool driver_is_slow_;
  bool peer_takes_ = true;  // what is sent to it
};

}  // namespace
}  // namespace cw::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > cw::dataplane::kInputBytesMax) {
    return 0;
  }
  cw::dataplane::Rig rig(data[0]);
  for (size_t i = 1; i + 1 < size; i += 2) {
    rig.act(data[i], data[i + 1]);
  }
  rig.finish();
  return 0;
}
