// RPC-over-RDMA headers that are refused: well-formed SENDs to an established queue pair.
#include <algorithm>
#include <functional>

#include "apps/load/pktgen/malformed.h"
#include "apps/load/pktgen/packets.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/wire/transport_header.h"
#include "rpcrdma/xdr/xdr_writer.h"

namespace cw::pktgen {
namespace {

using rpcrdma::HeaderError;
using rpcrdma::RdmaProc;
using rpcrdma::XdrWriter;

constexpr uint32_t kXid = 0x0bad'0001;
constexpr uint32_t kHandle = 0x1234;
constexpr uint64_t kOffset = 0x1000;

// What goes wrong stands behind the four fixed words; `lists` writes them.
ByteVector message(uint32_t version, uint32_t proc, const std::function<void(XdrWriter&)>& lists) {
  ByteVector out(8192);
  XdrWriter writer(out);
  writer.u32(kXid);
  writer.u32(version);
  writer.u32(1);  // credits
  writer.u32(proc);
  lists(writer);
  CW_ASSERT(writer.ok());
  out.resize(writer.offset());
  return out;
}

ByteVector rdma_msg(const std::function<void(XdrWriter&)>& lists) {
  return message(rpcrdma::kRpcRdmaVersion, static_cast<uint32_t>(RdmaProc::kMsg), lists);
}

void segment(XdrWriter& writer, uint32_t length, uint64_t offset = kOffset) {
  writer.u32(kHandle);
  writer.u32(length);
  writer.u64(offset);
}

void read_segment(XdrWriter& writer, uint32_t position, uint32_t length, uint64_t offset = kOffset) {
  writer.boolean(true);
  writer.u32(position);
  segment(writer, length, offset);
}

// An RPC CALL of NULL, AUTH_NONE.
void call(XdrWriter& writer, uint32_t xid) {
  constexpr uint32_t kProgram = 100003;
  constexpr uint32_t kProgramVersion = 4;
  for (const uint32_t word : {xid, uint32_t{0}, rpcrdma::kRpcVersion, kProgram, kProgramVersion, 0u, 0u, 0u, 0u, 0u}) {
    writer.u32(word);
  }
}

void no_chunks(XdrWriter& writer) {
  writer.zeros(12);
}

Count messages(const char* direction, const char* procedure) {
  return {"causeway_rpcrdma_messages_total", {{"direction", direction}, {"procedure", procedure}}};
}
Count answered_with(const char* code) {
  return {"causeway_rpcrdma_errors_total", {{"direction", "tx"}, {"code", code}}};
}

class HeaderList {
 public:
  HeaderList(Profile& profile, const Target& target, const QueuePairTarget& qp)
      : profile_(profile), target_(target), qpn_(qp.qpn), psn_(qp.first_psn) {}

  // The counts stand with the packet that ends the message.
  void add(const std::string& kind, const ByteVector& raw, std::vector<Count> counts) {
    const std::vector<ByteVector> packets = maker_.send(target_, qpn_, psn_, raw);
    size_t sent = 0;
    for (size_t i = 0; i < packets.size(); ++i) {
      const size_t bytes = std::min<size_t>(raw.size() - sent, target_.path_mtu_bytes);
      const Count received{"causeway_roce_payload_bytes_total", {{"direction", "rx"}}, bytes};
      const bool last = i + 1 == packets.size();
      if (last) {
        counts.push_back(received);
      }
      add_frame(profile_, last ? kind : kind + "_part" + std::to_string(i + 1), packets[i],
                last ? counts : std::vector<Count>{received});
      sent += bytes;
    }
  }
  void add_malformed(const std::string& kind, HeaderError error, const std::function<void(XdrWriter&)>& lists) {
    add(kind, rdma_msg(lists),
        {messages("rx", "rdma_msg"),
         {"causeway_rpcrdma_malformed_headers_total", {{"reason", to_string(error)}}},
         messages("tx", "rdma_error"),
         answered_with("chunk")});
  }

 private:
  Profile& profile_;
  const Target& target_;
  verbs::Qpn qpn_;
  wire::Psn psn_;
  PacketMaker maker_;
};

void add_bad_chunks(HeaderList& list) {
  // 28 bytes at least, or the message is short instead of malformed.
  list.add_malformed("rpc_truncated", HeaderError::kTruncated, [](XdrWriter& writer) {
    writer.boolean(true);
    writer.zeros(8);
  });
  list.add_malformed("rpc_bad_discriminant", HeaderError::kBadDiscriminant, [](XdrWriter& writer) {
    writer.u32(2);
    writer.zeros(8);
  });
  list.add_malformed("rpc_too_many_read_segments", HeaderError::kTooManyReadSegments, [](XdrWriter& writer) {
    for (uint32_t i = 0; i <= rpcrdma::kReadSegmentsMax; ++i) {
      read_segment(writer, 4, 4);
    }
    no_chunks(writer);
  });
  list.add_malformed("rpc_too_many_write_chunks", HeaderError::kTooManyWriteChunks, [](XdrWriter& writer) {
    writer.boolean(false);
    for (uint32_t i = 0; i <= rpcrdma::kWriteChunksMax; ++i) {
      writer.boolean(true);
      writer.u32(0);
    }
    writer.zeros(8);
  });
  list.add_malformed("rpc_too_many_segments", HeaderError::kTooManySegments, [](XdrWriter& writer) {
    writer.zeros(8);
    writer.boolean(true);
    writer.u32(rpcrdma::kPlainSegmentsMax + 1);
  });
  list.add_malformed("rpc_read_too_long", HeaderError::kReadTooLong, [](XdrWriter& writer) {
    read_segment(writer, 4, UINT32_MAX);
    no_chunks(writer);
  });
  list.add_malformed("rpc_offset_wraps", HeaderError::kOffsetWraps, [](XdrWriter& writer) {
    read_segment(writer, 4, 2, UINT64_MAX);
    no_chunks(writer);
  });
  list.add_malformed("rpc_position_alignment", HeaderError::kPositionAlignment, [](XdrWriter& writer) {
    read_segment(writer, 3, 4);
    no_chunks(writer);
  });
  list.add_malformed("rpc_position_mixed", HeaderError::kPositionMixed, [](XdrWriter& writer) {
    read_segment(writer, 0, 40);
    no_chunks(writer);
    call(writer, kXid);
  });
  list.add_malformed("rpc_position_beyond", HeaderError::kPositionBeyond, [](XdrWriter& writer) {
    read_segment(writer, 4000, 4);
    no_chunks(writer);
    call(writer, kXid);
  });
  list.add_malformed("rpc_chunk_too_long", HeaderError::kChunkTooLong, [](XdrWriter& writer) {
    writer.zeros(8);
    writer.boolean(true);
    writer.u32(2);
    segment(writer, UINT32_MAX);
    segment(writer, UINT32_MAX);
  });
}

}  // namespace

void add_malformed_headers(Profile& profile, const Target& target, const QueuePairTarget& qp) {
  HeaderList list(profile, target, qp);
  list.add("rpc_short", ByteVector(8, 0), {{"causeway_rpcrdma_short_messages_total", {}}});
  list.add("rpc_version", message(2, 0, no_chunks),
           {messages("rx", "other"), messages("tx", "rdma_error"), answered_with("vers")});
  list.add("rpc_procedure", message(1, static_cast<uint32_t>(RdmaProc::kMsgp), no_chunks),
           {messages("rx", "other"), messages("tx", "rdma_error"), answered_with("chunk")});
  list.add("rpc_done", message(1, static_cast<uint32_t>(RdmaProc::kDone), no_chunks), {messages("rx", "other")});
  list.add("rpc_error", message(1, static_cast<uint32_t>(RdmaProc::kError), no_chunks), {messages("rx", "rdma_error")});
  list.add("rpc_reply", rdma_msg([](XdrWriter& writer) {
             no_chunks(writer);
             writer.u32(kXid);
             writer.u32(static_cast<uint32_t>(rpcrdma::RpcMessageType::kReply));
             writer.zeros(16);
           }),
           {messages("rx", "rdma_msg"), {"causeway_rpcrdma_reverse_dropped_total", {}}});
  list.add("rpc_xid", rdma_msg([](XdrWriter& writer) {
             no_chunks(writer);
             call(writer, kXid + 1);
           }),
           {messages("rx", "rdma_msg"),
            {"causeway_rpcrdma_xid_mismatches_total", {}},
            messages("tx", "rdma_error"),
            answered_with("chunk")});
  add_bad_chunks(list);
}

}  // namespace cw::pktgen
