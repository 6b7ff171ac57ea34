// Two hosts with a connection manager each, users that decide at random, and a link between them that loses, duplicates and
// reorders. Everything follows from one seed.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "control/cm/connection_manager.h"
#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm::test {

struct LinkFaults {
  uint32_t loss_percent = 0;
  uint32_t duplicate_percent = 0;
  Duration delay_max = Duration::us(200);  // uniform: datagrams overtake each other
};

// What a host's user did, in the end.
struct UserStats {
  uint32_t requested = 0;
  uint32_t accepted = 0;
  uint32_t established = 0;  // both roles
  uint32_t refused = 0;
  uint32_t ended = 0;
};

class TwoHosts {
 public:
  struct Open {
    bool passive = false;
    bool up = false;
    verbs::Qpn local_qpn;
    verbs::Qpn remote_qpn;
  };
  struct Host {
    std::unique_ptr<ConnectionManager> manager;
    std::map<uint64_t, Open> open;  // announced or asked for, and not ended
    uint32_t next_qpn = 0x11;       // starts over with every life of the host
    uint32_t life = 0;
    UserStats stats;
  };

  // Small tables, so that checking them after every step costs little.
  [[nodiscard]] static CmOptions small() {
    CmOptions options;
    options.connection_max = 64;
    options.timewait_max = 32;
    return options;
  }

  explicit TwoHosts(uint64_t seed, const CmOptions& options = small()) : random(seed), options_(options) {
    for (Host& host : hosts) {
      start(host);
    }
  }

  // The host forgets everything; the other one is not told.
  void crash(int which) {
    ++hosts[which].life;
    hosts[which].open.clear();
    start(hosts[which]);
  }

  void connect(int from) {
    Host& host = hosts[from];
    const verbs::Qpn qpn(host.next_qpn++);
    const auto opened = host.manager->connect(now, address(from), ip_service_id(kPort),
                                              {.local_qpn = qpn, .first_receive_psn = wire::Psn(random.next_u32())});
    if (opened.ok()) {
      host.open[opened->value()] = Open{.passive = false, .up = false, .local_qpn = qpn, .remote_qpn = {}};
      ++host.stats.requested;
    }
    settle();
  }

  void disconnect_all() {
    for (Host& host : hosts) {
      std::vector<uint64_t> ids;
      for (const auto& [id, open] : host.open) {
        ids.push_back(id);
      }
      for (const uint64_t id : ids) {
        host.manager->disconnect(now, ConnectionId(id));
      }
    }
    settle();
  }

  // A host sends its first data on every connection that it has asked for and believes to be up.
  void talk(int from) {
    for (const auto& [id, open] : hosts[from].open) {
      for (const auto& [other_id, other] : hosts[1 - from].open) {
        if (open.up && !open.passive && other.passive && other.remote_qpn == open.local_qpn) {
          hosts[1 - from].manager->data_arrived(now, ConnectionId(other_id));
        }
      }
    }
    settle();
  }

  void after(Duration delay, std::function<void()> action) { actions_.push({now + delay, sequence_++, std::move(action)}); }

  void run_for(Duration duration) {
    const Instant end = now + duration;
    while (true) {
      Instant next = actions_.empty() ? Instant::never() : actions_.top().at;
      for (Host& host : hosts) {
        next = earlier(next, host.manager->next_deadline());
      }
      if (next > end) {
        break;
      }
      // A deadline is a lower bound: a shell that sleeps until then may have to sleep again, and the clock must go on.
      now = std::max(now + Duration::us(100), next);
      while (!actions_.empty() && actions_.top().at <= now) {
        const auto action = actions_.top().action;
        actions_.pop();
        action();
      }
      for (Host& host : hosts) {
        host.manager->on_deadline(now);
      }
      settle();
    }
    now = std::max(now, end);
  }

  [[nodiscard]] bool is_quiet() const {
    for (const Host& host : hosts) {
      const ConnectionManager& manager = *host.manager;
      if (!host.open.empty() || manager.live_count() != 0 || manager.timewait_count() != 0 ||
          !manager.next_deadline().is_never() || !manager.is_consistent()) {
        return false;
      }
    }
    return true;
  }

  SeededRandom random;
  LinkFaults faults;
  bool fickle = true;  // users reject, delay and hang up at random
  Instant now = Instant::from_ns(5'000'000'000);
  Host hosts[2];

 private:
  struct Action {
    Instant at;
    uint64_t sequence;
    std::function<void()> action;
    friend bool operator<(const Action& a, const Action& b) { return a.at != b.at ? a.at > b.at : a.sequence > b.sequence; }
  };

  void start(Host& host) {
    host.manager = std::make_unique<ConnectionManager>(options_, random);
    host.next_qpn = 0x11;
    EXPECT_TRUE(host.manager->listen(ip_service_id(kPort)).ok());
  }
  [[nodiscard]] CmAddress address(int of) const { return of == 0 ? address_of(1, 2) : address_of(2, 1); }
  [[nodiscard]] bool chance(uint32_t percent) { return random.next_below(100) < percent; }
  [[nodiscard]] Duration up_to(Duration most) {
    return Duration::ns(static_cast<int64_t>(random.next_u64() % static_cast<uint64_t>(most.to_ns() + 1)));
  }

  // Everything that the managers have to send and to say, until they are silent.
  void settle() {
    for (int which = 0; which < 2; ++which) {
      CmDatagram datagram;
      CmEvent event;
      ConnectionManager& manager = *hosts[which].manager;
      bool busy = true;
      while (busy) {
        busy = false;
        while (manager.poll_event(event)) {
          busy = true;
          on_event(which, event);
        }
        while (manager.poll_transmit(datagram)) {
          busy = true;
          transmit(1 - which, datagram.mad);
        }
      }
      EXPECT_TRUE(manager.is_consistent());
    }
  }

  void transmit(int to, const Mad& mad) {
    const int copies = chance(faults.loss_percent) ? 0 : chance(faults.duplicate_percent) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      after(up_to(faults.delay_max), [this, to, mad] { hosts[to].manager->on_mad(now, address(to), mad); });
    }
  }

  // The rest of what a user does later, if its host has not crashed meanwhile.
  void later(int which, Duration most, std::function<void()> action) {
    after(up_to(most), [this, which, life = hosts[which].life, action = std::move(action)] {
      if (hosts[which].life == life) {
        action();
      }
    });
  }

  void on_event(int which, const CmEvent& event) {
    Host& host = hosts[which];
    if (const auto* request = event.as<ConnectRequest>()) {
      on_request(which, event.connection, *request);
    } else if (const auto* reply = event.as<ConnectReply>()) {
      ASSERT_TRUE(host.open.contains(event.connection.value()));
      host.open[event.connection.value()].remote_qpn = reply->remote_qpn;
      later(which, Duration::ms(5), [this, which, id = event.connection] { make_ready(which, id); });
    } else if (event.as<Established>() != nullptr) {
      on_established(which, event.connection);
    } else {
      // An ending: of a connection that the user knows, and only once.
      EXPECT_EQ(host.open.erase(event.connection.value()), 1u);
      ++host.stats.ended;
    }
  }

  void on_request(int which, ConnectionId id, const ConnectRequest& request) {
    Host& host = hosts[which];
    EXPECT_FALSE(host.open.contains(id.value()));
    host.open[id.value()] = Open{.passive = true, .up = false, .local_qpn = {}, .remote_qpn = request.remote_qpn};
    if (fickle && chance(15)) {
      ++host.stats.refused;
      host.open.erase(id.value());
      EXPECT_TRUE(host.manager->reject(now, id, RejectReason::kConsumerDefined).ok());
      return;
    }
    if (fickle && chance(20)) {
      EXPECT_TRUE(host.manager->delay(now, id, Duration::seconds(2)).ok());
    }
    later(which, fickle ? Duration::ms(1500) : Duration::ms(2), [this, which, id] {
      Host& mine = hosts[which];
      const verbs::Qpn qpn(mine.next_qpn++);
      if (mine.manager->accept(now, id, {.local_qpn = qpn, .first_receive_psn = wire::Psn(1)}).ok()) {
        ++mine.stats.accepted;
        mine.open[id.value()].local_qpn = qpn;
      }
    });
  }

  void make_ready(int which, ConnectionId id) {
    Host& host = hosts[which];
    if (!host.manager->ready(now, id).ok()) {
      return;  // it ended meanwhile
    }
    Open& open = host.open[id.value()];
    open.up = true;
    ++host.stats.established;
    // First data, which the peer's queue pair takes for the RTU if it is first.
    if (chance(50)) {
      after(up_to(faults.delay_max), [this, to = 1 - which, qpn = open.remote_qpn] {
        for (const auto& [peer_id, peer] : hosts[to].open) {
          if (peer.passive && peer.local_qpn == qpn) {
            hosts[to].manager->data_arrived(now, ConnectionId(peer_id));
          }
        }
      });
    }
    maybe_hang_up(which, id);
  }

  void on_established(int which, ConnectionId id) {
    Host& host = hosts[which];
    ASSERT_TRUE(host.open.contains(id.value()));
    Open& open = host.open[id.value()];
    EXPECT_TRUE(open.passive && !open.up);
    open.up = true;
    ++host.stats.established;
    maybe_hang_up(which, id);
  }

  void maybe_hang_up(int which, ConnectionId id) {
    if (fickle && chance(70)) {
      later(which, Duration::seconds(3), [this, which, id] { hosts[which].manager->disconnect(now, id); });
    }
  }

  CmOptions options_;
  std::priority_queue<Action> actions_;
  uint64_t sequence_ = 0;
};

}  // namespace cw::cm::test
