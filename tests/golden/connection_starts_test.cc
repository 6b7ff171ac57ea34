// What the Starting PSN of REQ and REP means (IBA 12.7): the PSN that its sender expects to receive first, hence the one at
// which its *recipient* starts to send. The names of the fields do not say, and a peer that reads them the other way round sees
// every first request refused as out of sequence. Told from what real peers sent, over the committed starts of connections and,
// where it is at hand, over the full capture.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/cm/wire/mad.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/req.h"
#include "rocev2/wire/packet_view.h"
#include "tests/support/pcap_reader.h"

namespace cw::cm {
namespace {

struct Start {
  Req req;
  Rep rep;
  wire::Psn client_first;  // of the first request that the side which sent the REQ sends
  wire::Psn server_first;  // of the first request that the side which sent the REP sends
};

std::vector<wire::PacketView> views_of(const std::vector<test::CapturedFrame>& frames) {
  std::vector<wire::PacketView> views;
  for (const test::CapturedFrame& frame : frames) {
    if (test::is_roce_frame(frame)) {
      views.push_back(wire::PacketView::parse(frame.bytes()).value());
    }
  }
  return views;
}

std::optional<Mad> mad_of(const wire::PacketView& view) {
  if (view.bth.opcode != wire::Opcode::kUdSendOnly || view.payload.size() != kMadSize) {
    return std::nullopt;
  }
  Mad mad;
  std::copy(view.payload.begin(), view.payload.end(), mad.begin());
  return mad;
}

// The PSN of the first request after `begin` from `source` to queue pair `qpn`.
wire::Psn first_request(std::span<const wire::PacketView> views, const IpAddress& source, verbs::Qpn qpn) {
  for (const wire::PacketView& view : views) {
    const bool datagram = view.bth.opcode == wire::Opcode::kUdSendOnly;
    if (view.traits->is_request && !datagram && view.source() == source && view.bth.destination == qpn) {
      return view.bth.psn;
    }
  }
  ADD_FAILURE() << "a side never sent a request";
  return {};
}

std::vector<Start> starts_of(const std::filesystem::path& capture) {
  const std::vector<test::CapturedFrame> frames = test::read_pcap(capture);
  const std::vector<wire::PacketView> views = views_of(frames);
  std::map<uint32_t, Req> requests;  // by the active side's communication id
  std::vector<Start> starts;
  for (size_t i = 0; i < views.size(); ++i) {
    const std::optional<Mad> mad = mad_of(views[i]);
    if (mad && type_of(*mad) == MessageType::kReq) {
      const Req req = Req::parse(message_of(*mad)).value();
      requests[req.local_comm_id] = req;
    } else if (mad && type_of(*mad) == MessageType::kRep) {
      const Rep rep = Rep::parse(message_of(*mad)).value();
      const Req& req = requests.at(rep.remote_comm_id);
      const auto later = std::span(views).subspan(i);
      starts.push_back({req, rep, first_request(later, views[i].destination(), rep.local_qpn),
                        first_request(later, views[i].source(), req.local_qpn)});
    }
  }
  return starts;
}

class ConnectionStarts : public ::testing::TestWithParam<std::filesystem::path> {};

std::vector<std::filesystem::path> captures() {
  std::vector<std::filesystem::path> files = {test::golden_packets_dir() / "starts-linux61.pcap"};
  if (const auto full = test::full_captures_dir()) {
    files.push_back(*full / "nfs-rdma-linux61.pcap");
  }
  return files;
}

TEST_P(ConnectionStarts, StartingPsnOfTheReqIsWhereTheSenderOfTheRepStartsToSend) {
  const std::vector<Start> starts = starts_of(GetParam());
  EXPECT_EQ(starts.size(), 3u);
  for (const Start& start : starts) {
    EXPECT_EQ(start.server_first, start.req.starting_psn);
    EXPECT_NE(start.client_first, start.req.starting_psn);
  }
}

TEST_P(ConnectionStarts, StartingPsnOfTheRepIsWhereTheSenderOfTheReqStartsToSend) {
  const std::vector<Start> starts = starts_of(GetParam());
  EXPECT_EQ(starts.size(), 3u);
  for (const Start& start : starts) {
    EXPECT_EQ(start.client_first, start.rep.starting_psn);
    EXPECT_NE(start.server_first, start.rep.starting_psn);
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, ConnectionStarts, ::testing::ValuesIn(captures()),
                         [](const auto& capture) { return capture.index == 0 ? std::string("committed") : std::string("full"); });

TEST(ConnectionStart, OfTheFirstMountInNumbers) {
  const std::vector<Start> starts = starts_of(test::golden_packets_dir() / "starts-linux61.pcap");
  ASSERT_FALSE(starts.empty());
  EXPECT_EQ(starts.front().req.starting_psn, wire::Psn(0x4fca72));  // the server's first SEND
  EXPECT_EQ(starts.front().server_first, wire::Psn(0x4fca72));
  EXPECT_EQ(starts.front().rep.starting_psn, wire::Psn(0xa95359));  // the client's first SEND
  EXPECT_EQ(starts.front().client_first, wire::Psn(0xa95359));
}

}  // namespace
}  // namespace cw::cm
