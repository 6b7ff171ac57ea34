// Captures: what is wanted, what is taken out, what is written.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "control/capture/capture_writer.h"
#include "control/capture/pcapng.h"
#include "control/capture/roce_frame.h"
#include "control/socket/unique_fd.h"
#include "rocev2/wire/opcode.h"

namespace cw::control::capture {
namespace {

constexpr uint8_t kSendOnly = 0x04;
constexpr uint8_t kSendOnlyInvalidate = 0x17;
constexpr uint8_t kWriteOnly = 0x0a;
constexpr uint8_t kReadRequest = 0x0c;
constexpr uint8_t kDatagram = 0x64;
constexpr uint32_t kIpv4Headers = 14 + 20 + 8 + 12;

// From 10.0.0.9 to 10.0.0.1 (or the same of IPv6), to queue pair 0x1a2b; every byte behind the BTH is 0xee.
std::vector<uint8_t> frame(uint8_t opcode, uint32_t more, bool ipv6 = false, bool vlan = false) {
  std::vector<uint8_t> out(12, 2);
  if (vlan) {
    out.insert(out.end(), {0x81, 0x00, 0x00, 0x2a});
  }
  if (ipv6) {
    out.insert(out.end(), {0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64});
    for (const uint8_t last : {uint8_t{9}, uint8_t{1}}) {
      out.insert(out.end(), {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
    }
  } else {
    out.insert(out.end(), {0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1});
  }
  out.insert(out.end(), {0xc0, 0x00, 0x12, 0xb7, 0, 0, 0, 0});                      // UDP 4791
  out.insert(out.end(), {opcode, 0x40, 0xff, 0xff, 0, 0, 0x1a, 0x2b, 0, 0, 0, 1});  // BTH
  out.insert(out.end(), more, 0xee);
  return out;
}

TEST(RoceFrame, IsFoundBehindEveryLinkHeader) {
  for (const bool ipv6 : {false, true}) {
    for (const bool vlan : {false, true}) {
      const auto raw = frame(kSendOnly, 64, ipv6, vlan);
      const auto roce = locate_roce(raw);
      ASSERT_TRUE(roce) << ipv6 << vlan;
      EXPECT_EQ(roce->destination_qpn, 0x1a2bu);
      EXPECT_EQ(roce->opcode, kSendOnly);
      EXPECT_EQ(roce->payload_at, raw.size() - 64);
      EXPECT_EQ(to_string(roce->source), ipv6 ? "fd09::9" : "10.0.0.9");
    }
  }
}

TEST(RoceFrame, CutAnywhereItIsNoneOrWhole) {
  const auto raw = frame(kSendOnly, 4);
  for (size_t size = 0; size < kIpv4Headers; ++size) {
    EXPECT_FALSE(locate_roce(Bytes(raw).first(size))) << size;
  }
  EXPECT_TRUE(locate_roce(raw));
  auto other = raw;
  other[37] = 0;  // another UDP port
  EXPECT_FALSE(locate_roce(other));
}

TEST(Redact, KeysBecomeZeroAndDataAreCut) {
  auto write = frame(kWriteOnly, 16 + 100);
  EXPECT_EQ(redact(write), kIpv4Headers + 16);
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(write[kIpv4Headers + i], i >= 8 && i < 12 ? 0 : 0xee) << "RETH: address, R_Key, length";
  }
  auto read = frame(kReadRequest, 16 + 4);
  EXPECT_EQ(redact(read), kIpv4Headers + 16);
  EXPECT_EQ(read[kIpv4Headers + 8], 0);
  auto send = frame(kSendOnlyInvalidate, 4 + 200);
  EXPECT_EQ(redact(send), kIpv4Headers + 4 + 16) << "XID, version, credits and procedure stay";
  EXPECT_EQ(send[kIpv4Headers], 0) << "IETH";
  EXPECT_EQ(send[kIpv4Headers + 4], 0xee);
}

TEST(Redact, WhatHoldsNoSecretStaysWhole) {
  auto datagram = frame(kDatagram, 300);
  EXPECT_EQ(redact(datagram), datagram.size());
  std::vector<uint8_t> arp(60, 1);
  arp[12] = 0x08;
  arp[13] = 0x06;
  EXPECT_EQ(redact(arp), 60u);
  auto solicitation = frame(kSendOnly, 40, true);
  solicitation[20] = 58;   // ICMPv6
  solicitation[54] = 135;  // neighbour solicitation
  EXPECT_EQ(redact(solicitation), solicitation.size());
}

TEST(Redact, OfWhatIsNotRoceOnlyHeadersStay) {
  auto tcp = frame(kSendOnly, 100);
  tcp[23] = 6;
  EXPECT_EQ(redact(tcp), 14u + 20 + 8);
  auto error = frame(kSendOnly, 100, true);
  error[20] = 58;
  error[54] = 1;  // destination unreachable quotes the packet, R_Key and all
  EXPECT_EQ(redact(error), 14u + 40 + 8);
  auto later_fragment = frame(kSendOnly, 100);
  later_fragment[21] = 7;
  EXPECT_EQ(redact(later_fragment), 14u + 20) << "its ports are somebody's data";
  auto two_tags = frame(kSendOnly, 100, false, true);
  two_tags[12] = 0x88;
  two_tags[13] = 0xa8;
  EXPECT_EQ(redact(two_tags), 14u);
  std::vector<uint8_t> runt(9, 1);
  EXPECT_EQ(redact(runt), 9u);
}

TEST(Redact, NoCutOpcodeOrTruncationWritesBeyondTheFrame) {
  for (uint32_t opcode = 0; opcode < 256; ++opcode) {
    for (uint32_t more = 0; more < 40; ++more) {
      auto raw = frame(static_cast<uint8_t>(opcode), more);
      EXPECT_LE(redact(raw), raw.size());
    }
  }
}

TEST(FrameFilter, KnowsBothDirections) {
  const auto raw = frame(kSendOnly, 10);
  EXPECT_TRUE(FrameFilter{}.wants(raw, true));
  const FrameFilter client{.client = parse_prefix("10.0.0.9"), .local_qpn = std::nullopt, .remote_qpn = 0};
  EXPECT_TRUE(client.wants(raw, true));
  EXPECT_FALSE(client.wants(raw, false)) << "sent, it goes to another";
  const FrameFilter qp{.client = std::nullopt, .local_qpn = 0x1a2b, .remote_qpn = 0x77};
  EXPECT_TRUE(qp.wants(raw, true));
  EXPECT_FALSE(qp.wants(raw, false));
  EXPECT_TRUE((FrameFilter{.client = std::nullopt, .local_qpn = 5, .remote_qpn = 0x1a2b}.wants(raw, false)));
  EXPECT_FALSE(qp.wants(std::vector<uint8_t>(60, 1), true)) << "no RoCE frame";
}

TEST(CaptureRing, KeepsOrderCutsAndCountsWhatFindsNoRoom) {
  CaptureRing ring(FrameFilter{}, 64);
  const std::vector<uint8_t> one(40, 1);
  const std::vector<uint8_t> two(40, 2);
  const std::array<Bytes, 2> pieces = {Bytes(one), Bytes(two)};
  for (uint32_t i = 0; i < CaptureRing::kSlots + 5; ++i) {
    ring.offer(i, pieces, true);
  }
  EXPECT_EQ(ring.dropped(), 5u);
  CapturedFrame frame;
  MutableBytes raw;
  for (uint32_t i = 0; i < CaptureRing::kSlots; ++i) {
    ASSERT_TRUE(ring.front(frame, raw));
    ASSERT_EQ(frame.at_ns, i);
    EXPECT_EQ(raw.size(), 64u);
    EXPECT_EQ(frame.original_bytes, 80u);
    EXPECT_EQ(raw[39], 1);
    EXPECT_EQ(raw[40], 2);
    ring.pop();
  }
  EXPECT_FALSE(ring.front(frame, raw));
}

class CaptureWriterTest : public testing::Test {
 protected:
  ~CaptureWriterTest() override { std::filesystem::remove(file_); }
  // The file as a caller opens it. The writer does not need it any longer than it takes to start.
  [[nodiscard]] UniqueFd output() const { return UniqueFd(open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
  [[nodiscard]] std::string written() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  std::string file_ = "/tmp/cw_capture_" + std::to_string(getpid()) + ".pcapng";
  std::string problem_;
};

TEST_F(CaptureWriterTest, WritesBlocksWithoutSecrets) {
  const auto ring = std::make_shared<CaptureRing>(FrameFilter{}, 256);
  auto writer = CaptureWriter::start(output().get(), {}, {ring}, problem_);
  ASSERT_NE(writer, nullptr) << problem_;
  const auto raw = frame(kWriteOnly, 16 + 100);
  const Bytes piece(raw);
  ring->offer(1, {&piece, 1}, true);
  writer.reset();
  const std::string start = pcapng_start("causewayd", kSnapBytesMax);
  const std::string all = written();
  ASSERT_EQ(all.substr(0, start.size()), start);
  const auto length = static_cast<uint32_t>(raw.size());
  const std::string packet = pcapng_packet(0, piece.first(kIpv4Headers + 16), {length, length}, true);
  ASSERT_EQ(all.size(), start.size() + packet.size());
  constexpr size_t kBlockHeader = 28;
  const std::string stored = all.substr(start.size() + kBlockHeader, raw.size());
  EXPECT_EQ(stored.substr(0, kIpv4Headers), std::string(raw.begin(), raw.begin() + kIpv4Headers));
  EXPECT_EQ(stored.substr(kIpv4Headers + 16), std::string(100, '\0')) << "data are zeros, and the frame keeps its length";
}

// A frame of the kernel's is no RoCE, and ends where what may be shown ends.
TEST_F(CaptureWriterTest, CutsWhatIsNotRoce) {
  const auto ring = std::make_shared<CaptureRing>(FrameFilter{}, 256);
  auto writer = CaptureWriter::start(output().get(), {}, {ring}, problem_);
  ASSERT_NE(writer, nullptr) << problem_;
  auto raw = frame(kSendOnly, 100);
  raw[23] = 6;  // TCP
  const Bytes piece(raw);
  ring->offer(1, {&piece, 1}, true);
  writer.reset();
  EXPECT_EQ(written().size(), pcapng_start("causewayd", 256).size() + pcapng_packet(0, piece.first(42), {42, 154}, true).size());
}

// The gateway may have rights that the caller has not; so it opens nothing, and what could make its writer wait is
// no capture file.
TEST_F(CaptureWriterTest, WantsARegularFileOpenForWriting) {
  constexpr const char* kProblem =
      "a capture wants a regular file, open for writing, sent along with the request; causewayctl capture start does that";
  const UniqueFd out = output();
  const UniqueFd read_only(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const UniqueFd pipe_out(pipe_ends[0]);
  const UniqueFd pipe_in(pipe_ends[1]);
  const UniqueFd directory(open("/tmp", O_RDONLY | O_CLOEXEC));
  for (const int wrong : {-1, read_only.get(), pipe_in.get(), directory.get()}) {
    problem_.clear();
    EXPECT_EQ(CaptureWriter::start(wrong, {}, {}, problem_), nullptr);
    EXPECT_EQ(problem_, kProblem);
  }
  EXPECT_NE(CaptureWriter::start(out.get(), {}, {}, problem_), nullptr);
}

TEST_F(CaptureWriterTest, EndsAtItsNumberOfPackets) {
  const auto ring = std::make_shared<CaptureRing>(FrameFilter{}, 256);
  const auto raw = frame(kSendOnly, 30);
  const Bytes piece(raw);
  for (int i = 0; i < 10; ++i) {
    ring->offer(i, {&piece, 1}, true);
  }
  auto writer = CaptureWriter::start(output().get(), {.snap_bytes = 256, .packets = 4, .seconds = 60, .with_payload = true},
                                     {ring}, problem_);
  ASSERT_NE(writer, nullptr) << problem_;
  while (!writer->is_done()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(writer->packets(), 4u);
  // From then on the core copies nothing, and what it does not copy is not "dropped".
  for (uint32_t i = 0; i < CaptureRing::kSlots + 5; ++i) {
    ring->offer(i, {&piece, 1}, true);
  }
  EXPECT_EQ(ring->dropped(), 0u);
  writer.reset();
  EXPECT_EQ(written().size(), pcapng_start("causewayd", 256).size() + 4 * pcapng_packet(0, piece, {84, 84}, true).size());
}

// A file server that is gone, until it answers again.
std::atomic<bool> server_is_back{false};
ssize_t write_to_server(int file, const void* raw, size_t size) {
  server_is_back.wait(false);
  return write(file, raw, size);
}

TEST_F(CaptureWriterTest, NobodyWaitsWithoutLimitForAFileThatDoesNotAnswer) {
  const auto ring = std::make_shared<CaptureRing>(FrameFilter{}, 256);
  auto writer = CaptureWriter::start(output().get(), {}, {ring}, problem_, &write_to_server);
  ASSERT_NE(writer, nullptr) << problem_;
  EXPECT_FALSE(writer->stop(std::chrono::milliseconds(0)));
  EXPECT_FALSE(writer->stop(std::chrono::milliseconds(0))) << "asked again, the answer is the same";
  EXPECT_FALSE(writer->failed());

  // Its owner may go, and takes nothing from the thread that is left behind.
  writer.reset();
  EXPECT_GT(ring.use_count(), 1);
  server_is_back = true;
  server_is_back.notify_all();
  while (ring.use_count() > 1) {
    std::this_thread::yield();
  }
  EXPECT_EQ(written(), pcapng_start("causewayd", kSnapBytesMax));
}

}  // namespace
}  // namespace cw::control::capture
