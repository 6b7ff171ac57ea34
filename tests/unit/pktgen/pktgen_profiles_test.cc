// The captures of `causeway-load pktgen`, put into a simulated gateway frame by frame: each moves exactly the counters that stand
// beside it, under the names of /metrics.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "apps/load/pktgen/files.h"
#include "apps/load/pktgen/malformed.h"
#include "apps/load/pktgen/noise.h"
#include "apps/load/pktgen/requests.h"
#include "apps/load/pktgen/send.h"
#include "control/cm/cm_stats.h"
#include "rocev2/wire/packet_view.h"
#include "rpcrdma/wire/transport_header.h"
#include "tests/support/pcap_reader.h"
#include "tests/unit/pktgen/measured_gateway.h"

namespace cw::pktgen::test {
namespace {

constexpr Shape kShapes[] = {{false, 0}, {true, 0}, {false, 7}, {true, 7}};

// Counters that follow from the answers, from time passing or from other counters (a core's frames are those of its ports), of
// which a profile promises nothing.
const std::set<std::string> kConsequences = {
    "causeway_roce_acks_total",
    "causeway_roce_naks_total",
    "causeway_roce_ack_timeouts_total",
    "causeway_roce_retransmitted_packets_total",
    "causeway_roce_tail_probes_total",
    "causeway_roce_window_stalls_total",
    "causeway_roce_queue_pairs_created_total",
    "causeway_roce_queue_pairs_destroyed_total",
    "causeway_rpcrdma_pullups_total",
    "causeway_lcore_frames_received_total",
};

bool is_promised(const Sample& sample) {
  const auto direction = sample.labels.find("direction");
  const bool sent = direction != sample.labels.end() && direction->second == "tx";
  const bool packets_sent =
      sent && (sample.metric == "causeway_roce_packets_total" || sample.metric == "causeway_roce_payload_bytes_total");
  return !packets_sent && !kConsequences.contains(sample.metric);
}

bool includes(const std::map<std::string, std::string>& have, const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto found = have.find(label.first);
    return found != have.end() && found->second == label.second;
  });
}

std::string text_of(const std::string& metric, const std::map<std::string, std::string>& labels) {
  std::string out = metric;
  for (const auto& [name, value] : labels) {
    out += " " + name + "=" + value;
  }
  return out;
}

// Every promised count came about, and nothing else did.
void expect_moved(const std::vector<Sample>& before, const std::vector<Sample>& after, const std::vector<Count>& counts,
                  const std::string& what) {
  ASSERT_EQ(before.size(), after.size());
  std::vector<double> moved(after.size());
  for (size_t i = 0; i < after.size(); ++i) {
    moved[i] = is_promised(after[i]) ? after[i].value - before[i].value : 0;
  }
  for (const Count& count : counts) {
    double left = static_cast<double>(count.add);
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i].metric == count.metric && includes(after[i].labels, count.labels)) {
        const double taken = std::min(left, moved[i]);
        moved[i] -= taken;
        left -= taken;
      }
    }
    EXPECT_EQ(left, 0) << what << ": " << text_of(count.metric, count.labels);
  }
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(moved[i], 0) << what << ": unexpected " << text_of(after[i].metric, after[i].labels);
  }
}

double total(const std::vector<Sample>& samples, const std::string& metric,
             const std::map<std::string, std::string>& labels = {}) {
  double sum = 0;
  for (const Sample& sample : samples) {
    sum += sample.metric == metric && includes(sample.labels, labels) ? sample.value : 0;
  }
  return sum;
}

void expect_each_frame_counts(MeasuredGateway& gateway, const Profile& profile) {
  for (const Frame& frame : profile.frames) {
    const std::vector<Sample> before = gateway.samples();
    gateway.play(frame.raw);
    gateway.turn();
    const Kind& kind = profile.kinds[frame.kind];
    expect_moved(before, gateway.samples(), kind.counts, kind.name);
  }
}

void expect_valid_roce(const Profile& profile) {
  for (const Frame& frame : profile.frames) {
    const auto view = wire::PacketView::parse(frame.raw);
    ASSERT_TRUE(view.ok());
    EXPECT_TRUE(wire::verify_icrc(*view));
  }
}

TEST(PktgenProfiles, EveryMalformedFrameMovesItsCountersAndNoOther) {
  for (const Shape& shape : kShapes) {
    MeasuredGateway gateway(shape);
    expect_each_frame_counts(gateway, make_malformed(gateway.target(), gateway.qp()));
    ASSERT_FALSE(HasFailure()) << "ipv6 " << shape.ipv6 << ", vlan " << shape.vlan;
  }
}

TEST(PktgenProfiles, WithoutAQueuePairEveryPassCountsTheSame) {
  MeasuredGateway gateway;
  const Profile profile = make_malformed(gateway.target(), std::nullopt);
  for (int pass = 0; pass < 3; ++pass) {
    const std::vector<Sample> before = gateway.samples();
    gateway.play(profile);
    expect_moved(before, gateway.samples(), pass == 0 ? first_pass(profile) : profile.further_pass, std::to_string(pass));
  }
}

// A new reason needs a frame, or a word why there is none.
TEST(PktgenProfiles, EveryReasonHasAFrameOrARemark) {
  MeasuredGateway gateway;
  const Profile profile = make_malformed(gateway.target(), gateway.qp());
  const std::vector<Count> counts = first_pass(profile);
  const auto is_covered = [&](const std::string& metric, const std::string& reason) {
    const bool counted = std::any_of(counts.begin(), counts.end(), [&](const Count& count) {
      const auto found = count.labels.find("reason");
      return count.metric == metric && found != count.labels.end() && found->second == reason;
    });
    return counted || profile.remarks.front().find(reason) != std::string::npos;
  };
  for (uint32_t i = 0; i < wire::kDropReasonCount; ++i) {
    const std::string reason = to_string(static_cast<wire::DropReason>(i));
    EXPECT_TRUE(is_covered("causeway_roce_discards_total", reason)) << reason;
  }
  const std::set<std::string> by_flood = {"request_rate",       "answer_rate", "prefix_request_rate",
                                          "prefix_answer_rate", "half_open",   "prefix_half_open"};
  for (uint32_t i = 0; i < static_cast<uint32_t>(cm::CmDrop::kCount); ++i) {
    const std::string reason = to_string(static_cast<cm::CmDrop>(i));
    EXPECT_TRUE(is_covered("causeway_cm_discards_total", reason) || by_flood.contains(reason)) << reason;
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(rpcrdma::HeaderError::kCount); ++i) {
    const std::string reason = to_string(static_cast<rpcrdma::HeaderError>(i));
    EXPECT_TRUE(is_covered("causeway_rpcrdma_malformed_headers_total", reason)) << reason;
  }
}

TEST(PktgenProfiles, SendsAreTakenOnceAndThenAreDuplicates) {
  for (const Shape& shape : kShapes) {
    MeasuredGateway gateway(shape);
    const Profile profile = make_sends(gateway.target(), gateway.qp(), {.count = 300, .payload_bytes = 100});
    expect_valid_roce(profile);
    for (int pass = 0; pass < 3; ++pass) {
      const std::vector<Sample> before = gateway.samples();
      gateway.play(profile);
      expect_moved(before, gateway.samples(), pass == 0 ? first_pass(profile) : profile.further_pass, std::to_string(pass));
    }
  }
}

TEST(PktgenProfiles, EveryRequestIsAnsweredOrStandsUnderAReason) {
  for (const Shape& shape : kShapes) {
    MeasuredGateway gateway(shape);
    const Profile profile = make_requests(gateway.target(), {.count = 600, .sources = 50});
    expect_valid_roce(profile);
    const std::vector<Sample> before = gateway.samples();
    gateway.play(profile);
    const std::vector<Sample> after = gateway.samples();
    const auto moved = [&](const std::string& metric, const std::map<std::string, std::string>& labels = {}) {
      return total(after, metric, labels) - total(before, metric, labels);
    };
    EXPECT_EQ(moved("causeway_cm_messages_total", {{"direction", "rx"}, {"type", "req"}}), 600);
    EXPECT_EQ(moved("causeway_cm_messages_total", {{"direction", "rx"}}), 600);
    EXPECT_GT(moved("causeway_cm_messages_total", {{"direction", "tx"}, {"type", "rep"}}), 0);
    EXPECT_EQ(moved("causeway_cm_messages_total", {{"direction", "tx"}}) + moved("causeway_cm_discards_total"), 600);
    EXPECT_EQ(moved("causeway_roce_discards_total"), 0);
    EXPECT_EQ(moved("causeway_cm_duplicates_total"), 0);
  }
}

TEST(PktgenProfiles, NoiseTouchesNoConnection) {
  for (const Shape& shape : kShapes) {
    MeasuredGateway gateway(shape);
    const QueuePairTarget before_noise = gateway.qp();
    expect_each_frame_counts(gateway, make_noise(gateway.target(), {.count = 200}));
    EXPECT_EQ(gateway.qp().first_psn, before_noise.first_psn);
    ASSERT_FALSE(HasFailure()) << "ipv6 " << shape.ipv6 << ", vlan " << shape.vlan;
  }
}

TEST(PktgenFiles, TheSameSeedGivesTheSameBytes) {
  MeasuredGateway gateway;
  Target target = gateway.target();
  const auto pcaps = [&] {
    return std::vector<std::string>{to_pcap(make_sends(target, gateway.qp(), {})), to_pcap(make_requests(target, {})),
                                    to_pcap(make_malformed(target, gateway.qp())), to_pcap(make_noise(target, {}))};
  };
  const std::vector<std::string> first = pcaps();
  EXPECT_EQ(pcaps(), first);
  target.seed = 2;
  const std::vector<std::string> other = pcaps();
  EXPECT_NE(other[0], first[0]);
  EXPECT_NE(other[1], first[1]);
  EXPECT_NE(other[3], first[3]);
}

TEST(PktgenFiles, WhatIsWrittenIsReadBack) {
  MeasuredGateway gateway;
  const Target target = gateway.target();
  const Profile profile = make_malformed(target, std::nullopt);
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "pktgen_files_test.pcap";
  ASSERT_EQ(write_files(path, profile, target, std::nullopt), "");
  const auto frames = cw::test::read_pcap(path);
  ASSERT_EQ(frames.size(), profile.frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].raw, profile.frames[i].raw);
    EXPECT_EQ(frames[i].time, Instant::from_ns(static_cast<int64_t>(i) * 1000));
  }
  std::ifstream json(json_path_of(path));
  const std::string text{std::istreambuf_iterator<char>(json), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, to_json(profile, target, std::nullopt));
  std::filesystem::remove(path);
  std::filesystem::remove(json_path_of(path));
}

TEST(PktgenFiles, AFileThatCannotBeWrittenIsNamed) {
  MeasuredGateway gateway;
  const Target target = gateway.target();
  const std::string problem = write_files("/nonexistent/x.pcap", make_noise(target, {.count = 1}), target, std::nullopt);
  EXPECT_NE(problem.find("/nonexistent/x.pcap"), std::string::npos) << problem;
}

}  // namespace
}  // namespace cw::pktgen::test
