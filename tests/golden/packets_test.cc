// Golden packets: what real peers sent must parse, pass its iCRC, and come out again byte for byte when it is rebuilt from what
// was parsed. Runs over the committed set and, where they are at hand, over the full captures.
// A capture may have truncated frames (snap length): of those the headers are checked, and neither iCRC nor payload.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/packet_builder.h"
#include "rocev2/wire/packet_view.h"
#include "tests/support/pcap_reader.h"

namespace cw::wire {
namespace {

using test::CapturedFrame;

std::vector<std::filesystem::path> capture_files() {
  std::vector<std::filesystem::path> files = {test::golden_packets_dir() / "roce-linux61.pcap"};
  if (const auto full = test::full_captures_dir()) {
    for (const auto& entry : std::filesystem::directory_iterator(*full)) {
      if (entry.path().extension() == ".pcap") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin() + 1, files.end());
  return files;
}

std::vector<CapturedFrame> committed_frames() {
  return test::read_pcap(capture_files().front());
}

class GoldenPackets : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    for (CapturedFrame& frame : test::read_pcap(GetParam())) {
      if (test::is_roce_frame(frame)) {
        (frame.whole() ? frames : truncated).push_back(std::move(frame));
      }
    }
  }
  std::vector<CapturedFrame> frames;     // those that are there whole
  std::vector<CapturedFrame> truncated;  // those of which the capture kept only the beginning
};

// A truncated frame as long as it was on the wire, with zeros for what the capture did not keep.
std::vector<uint8_t> filled_up(const CapturedFrame& frame) {
  std::vector<uint8_t> bytes = frame.raw;
  bytes.resize(frame.original_bytes);
  return bytes;
}

// The path as the sender of `view` would have configured it.
Path path_of(const PacketView& view) {
  Path path;
  path.local_mac = view.source_mac();
  path.remote_mac = view.destination_mac();
  path.local = view.source();
  path.remote = view.destination();
  path.vlan = view.vlan;
  path.udp_source_port = view.source_port;
  const Bytes ip = view.frame.subspan(view.ip_offset);
  const uint8_t traffic_class = view.source().is_v4() ? Ipv4::parse(ip)->tos : Ipv6::parse(ip)->traffic_class;
  path.dscp = traffic_class >> 2;
  path.ecn_capable = view.ecn == 2;
  path.hop_limit = view.ttl;
  return path;
}

Extensions extensions_of(const PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  const auto has = [](uint8_t offset) { return offset != OpcodeTraits::kAbsent; };
  Extensions extensions;
  extensions.reth = has(traits.reth) ? view.reth() : Reth{};
  extensions.aeth = has(traits.aeth) ? view.aeth() : Aeth{};
  extensions.atomic_eth = has(traits.atomic_eth) ? view.atomic_eth() : AtomicEth{};
  extensions.atomic_ack_eth = has(traits.atomic_ack_eth) ? view.atomic_ack_eth() : AtomicAckEth{};
  extensions.immediate = has(traits.immdt) ? view.immediate() : 0;
  extensions.invalidate = has(traits.ieth) ? view.invalidate_rkey() : verbs::Rkey();
  extensions.deth = has(traits.deth) ? view.deth() : Deth{};
  return extensions;
}

uint16_t identification_of(const PacketView& view) {
  return view.source().is_v4() ? Ipv4::parse(view.frame.subspan(view.ip_offset))->identification : uint16_t{0};
}

std::vector<uint8_t> rebuilt(const PacketView& view, bool attach, BufferPool& pool) {
  TxBatch batch(pool);
  TxPacket& packet = *batch.add();
  const PathHeader path(path_of(view));
  Chain chain;
  if (attach) {
    EXPECT_TRUE(chain.append_copy(pool, view.payload));
    build_packet(packet, path, identification_of(view), view.bth, extensions_of(view),
                 PayloadCursor{chain.head(), 0, static_cast<uint32_t>(view.payload.size())});
  } else {
    build_packet(packet, path, identification_of(view), view.bth, extensions_of(view), view.payload);
  }
  std::vector<uint8_t> frame(packet.head->data, packet.head->data + packet.head->size);
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    frame.insert(frame.end(), packet.pieces[i].data, packet.pieces[i].data + packet.pieces[i].size);
  }
  frame.insert(frame.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
  return frame;
}

TEST_P(GoldenPackets, EveryFrameParsesAndItsIcrcIsRight) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const Result<PacketView, DropReason> view = PacketView::parse(frames[i].bytes());
    ASSERT_TRUE(view.ok()) << "frame " << i << ": " << to_string(view.error());
    EXPECT_TRUE(verify_icrc(*view)) << "frame " << i;
    EXPECT_TRUE(view->traits->may_carry_payload || view->payload.empty()) << "frame " << i;
    EXPECT_EQ((view->payload.size() + view->bth.pad_count) % 4, 0u) << "frame " << i;
  }
}

TEST_P(GoldenPackets, EveryFrameComesOutTheSameWhenRebuilt) {
  HeapBufferPool pool(32, 4096 + 256, 0);
  for (size_t i = 0; i < frames.size(); ++i) {
    const Result<PacketView, DropReason> view = PacketView::parse(frames[i].bytes());
    ASSERT_TRUE(view.ok());
    const std::vector<uint8_t> original(view->frame.begin(), view->frame.end());
    EXPECT_EQ(rebuilt(*view, false, pool), original) << "frame " << i << ", copied";
    EXPECT_EQ(rebuilt(*view, true, pool), original) << "frame " << i << ", from a chain";
  }
}

TEST_P(GoldenPackets, EveryTruncatedFrameIsARuntWithWholeHeaders) {
  for (size_t i = 0; i < truncated.size(); ++i) {
    const Result<PacketView, DropReason> runt = PacketView::parse(truncated[i].bytes());
    ASSERT_FALSE(runt.ok()) << "frame " << i;
    EXPECT_EQ(runt.error(), DropReason::kRunt) << "frame " << i;

    const std::vector<uint8_t> bytes = filled_up(truncated[i]);
    const Result<PacketView, DropReason> view = PacketView::parse(bytes);
    ASSERT_TRUE(view.ok()) << "frame " << i << ": " << to_string(view.error());
    const size_t headers_end = static_cast<size_t>(view->payload.data() - bytes.data());
    ASSERT_LE(headers_end, truncated[i].raw.size()) << "frame " << i << ": the capture has not even its headers";
    EXPECT_TRUE(view->traits->may_carry_payload || view->payload.empty()) << "frame " << i;
    EXPECT_EQ((view->payload.size() + view->bth.pad_count) % 4, 0u) << "frame " << i;
  }
}

TEST_P(GoldenPackets, EverythingElseInTheCaptureIsNotRoce) {
  for (const CapturedFrame& frame : test::read_pcap(GetParam())) {
    if (!test::is_roce_frame(frame)) {
      const Result<PacketView, DropReason> view = PacketView::parse(frame.bytes());
      ASSERT_FALSE(view.ok());
      // IGMP carries the router alert option; MLD stands behind a hop-by-hop header.
      EXPECT_TRUE(view.error() == DropReason::kNotRoce || view.error() == DropReason::kIpHeader) << to_string(view.error());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, GoldenPackets, ::testing::ValuesIn(capture_files()), [](const auto& name_of) {
  std::string name = name_of.index == 0 ? "committed" : name_of.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(GoldenSet, IsWhole) {
  const std::vector<CapturedFrame> frames = committed_frames();
  EXPECT_EQ(frames.size(), 579u);
  for (const CapturedFrame& frame : frames) {
    EXPECT_TRUE(frame.whole() && test::is_roce_frame(frame));
  }
}

TEST(GoldenSet, HoldsEveryOpcodeAndBothFamilies) {
  std::map<Opcode, int> count;
  int ipv6 = 0;
  for (const CapturedFrame& frame : committed_frames()) {
    const auto view = PacketView::parse(frame.bytes());
    ASSERT_TRUE(view.ok());
    ++count[view->bth.opcode];
    ipv6 += view->source().is_v4() ? 0 : 1;
  }
  EXPECT_EQ(count.size(), 18u);
  EXPECT_GT(count[Opcode::kUdSendOnly], 100);
  EXPECT_GT(count[Opcode::kRcSendOnlyInvalidate], 1);
  EXPECT_GT(ipv6, 30);
}

// --- Bad input: the same frames, damaged. Frames live in blocks of exactly their size, so that the sanitizers see any read
// behind the end.

enum class Outcome { kDropped, kIcrc, kAccepted };

Outcome outcome_of(const std::vector<uint8_t>& raw) {
  const Result<PacketView, DropReason> view = PacketView::parse(raw);
  if (!view) {
    EXPECT_LE(static_cast<uint32_t>(view.error()), static_cast<uint32_t>(DropReason::kMulticast));
    return Outcome::kDropped;
  }
  return verify_icrc(*view) ? Outcome::kAccepted : Outcome::kIcrc;
}

// One short frame of each kind: what the loops below can afford.
std::vector<CapturedFrame> one_of_each_kind() {
  std::map<std::pair<Opcode, bool>, CapturedFrame> kinds;
  for (const CapturedFrame& frame : committed_frames()) {
    const auto view = PacketView::parse(frame.bytes());
    const auto key = std::make_pair(view->bth.opcode, view->source().is_v4());
    const auto found = kinds.find(key);
    if (found == kinds.end() || frame.raw.size() < found->second.raw.size()) {
      kinds[key] = frame;
    }
  }
  std::vector<CapturedFrame> frames;
  frames.reserve(kinds.size());
  for (auto& [key, frame] : kinds) {
    frames.push_back(std::move(frame));
  }
  return frames;
}

TEST(DamagedPackets, EveryTruncationOfEveryGoldenFrameIsARunt) {
  for (const CapturedFrame& frame : committed_frames()) {
    const auto view = PacketView::parse(frame.bytes());
    ASSERT_TRUE(view.ok());
    for (size_t size = 0; size < view->frame.size(); ++size) {
      const std::vector<uint8_t> cut(frame.raw.begin(), frame.raw.begin() + static_cast<ptrdiff_t>(size));
      const auto verdict = PacketView::parse(cut);
      ASSERT_FALSE(verdict.ok());
      ASSERT_EQ(verdict.error(), DropReason::kRunt) << size;
    }
  }
}

// Bytes that neither the iCRC nor any check of parse() covers, whatever they say: Ethernet addresses, and what routers may
// change.
bool may_change_unseen(const PacketView& view, size_t at) {
  if (at < 12) {
    return true;
  }
  const size_t ip = view.ip_offset;
  const size_t bth = view.bth_offset;
  if (at == bth - 2 || at == bth - 1 || at == bth + 4) {
    return true;
  }
  return !view.source().is_v4() && (at <= ip + 3 || at == ip + 7) && at >= ip;
}

TEST(DamagedPackets, EverySingleBitFlipIsNoticed) {
  for (const CapturedFrame& frame : committed_frames()) {
    const auto view = PacketView::parse(frame.bytes());
    ASSERT_TRUE(view.ok());
    std::vector<uint8_t> bent = frame.raw;
    for (size_t at = 0; at < view->frame.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        bent[at] ^= static_cast<uint8_t>(1 << bit);
        if (outcome_of(bent) == Outcome::kAccepted) {
          EXPECT_TRUE(may_change_unseen(*view, at)) << view->traits->name << ", byte " << at << ", bit " << bit;
        }
        bent[at] ^= static_cast<uint8_t>(1 << bit);
      }
    }
  }
}

TEST(DamagedPackets, RandomDamageIsDroppedOrFailsTheIcrc) {
  const std::vector<CapturedFrame> frames = one_of_each_kind();
  SeededRandom random(4791);
  int accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    const CapturedFrame& frame = frames[random.next_below(static_cast<uint32_t>(frames.size()))];
    std::vector<uint8_t> bent = frame.raw;
    const uint32_t changes = 1 + random.next_below(8);
    for (uint32_t i = 0; i < changes; ++i) {
      bent[14 + random.next_below(static_cast<uint32_t>(bent.size() - 14))] = static_cast<uint8_t>(random.next_u32());
    }
    bent.resize(bent.size() - random.next_below(4));
    if (outcome_of(bent) != Outcome::kAccepted) {
      continue;
    }
    ++accepted;
    ASSERT_EQ(bent.size(), frame.raw.size());
    const auto view = PacketView::parse(frame.bytes());
    for (size_t at = 0; at < bent.size(); ++at) {
      if (bent[at] != frame.raw[at]) {
        EXPECT_TRUE(may_change_unseen(*view, at)) << view->traits->name << ", byte " << at;
      }
    }
  }
  EXPECT_LT(accepted, 1000);
}

TEST(DamagedPackets, RandomBytesAreDroppedOrFailTheIcrc) {
  SeededRandom random(1);
  for (int round = 0; round < 40'000; ++round) {
    std::vector<uint8_t> raw(random.next_below(200));
    for (uint8_t& byte : raw) {
      byte = static_cast<uint8_t>(random.next_u32());
    }
    if (raw.size() > 40 && (round & 1) == 0) {
      // Past the first gates, so that the inner layers see noise too.
      raw[0] &= 0xfe;
      const bool ipv6 = (round & 2) == 0;
      store_be16(&raw[12], ipv6 ? 0x86dd : 0x0800);
      raw[14] = ipv6 ? 0x60 : 0x45;
      raw[ipv6 ? 20 : 23] = 17;
    }
    EXPECT_NE(outcome_of(raw), Outcome::kAccepted);
  }
}

}  // namespace
}  // namespace cw::wire
