#include "iwarp/mpa/setup.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace cw::iwarp {
namespace {

// A frame of ours with its private data, behind the IRD/ORD word if there is one.
uint32_t write_frame(MpaHeader header, const IrdOrd* word, Bytes private_data, MutableBytes out) {
  const uint32_t word_bytes = word == nullptr ? 0 : IrdOrd::kBytes;
  CW_DASSERT(word_bytes + private_data.size() <= kMpaPrivateDataBytesMax);
  header.private_data_bytes = static_cast<uint16_t>(word_bytes + private_data.size());
  write(header, out);
  if (word != nullptr) {
    write(*word, out.subspan(kMpaHeaderBytes));
  }
  if (!private_data.empty()) {
    std::memcpy(out.data() + kMpaHeaderBytes + word_bytes, private_data.data(), private_data.size());
  }
  return kMpaHeaderBytes + header.private_data_bytes;
}

// WRITE touches nothing and needs no answer, hence first.
ReadyToReceive choose(const IrdOrd& offer) {
  if (!offer.peer_to_peer) {
    return ReadyToReceive::kNone;
  }
  if (offer.write) {
    return ReadyToReceive::kWrite;
  }
  return offer.read ? ReadyToReceive::kRead : ReadyToReceive::kSend;
}

// A depth of which the peer says that it is to be settled otherwise bounds nothing.
uint16_t bounded(uint16_t wish, uint16_t peers) {
  return peers == IrdOrd::kMax ? wish : std::min(wish, peers);
}

}  // namespace

MpaProgress MpaFrameReader::take(Bytes bytes, uint32_t& used) {
  used = 0;
  if (error_ != MpaError::kNone) {
    return MpaProgress::kFailed;
  }
  while (true) {
    const uint32_t wanted = size_ < kMpaHeaderBytes ? kMpaHeaderBytes : kMpaHeaderBytes + header_.private_data_bytes;
    const uint32_t count = std::min(wanted - size_, static_cast<uint32_t>(bytes.size()) - used);
    if (count > 0) {
      std::memcpy(raw_.data() + size_, bytes.data() + used, count);
      size_ = static_cast<uint16_t>(size_ + count);
      used += count;
    }
    if (size_ < kMpaHeaderBytes) {
      // What is not MPA is found out with its first byte, not when twenty have come.
      return could_be_mpa(Bytes(raw_).first(size_), kind_) ? MpaProgress::kMore : fail(MpaError::kKey);
    }
    if (size_ == kMpaHeaderBytes && wanted == kMpaHeaderBytes) {
      const ParsedMpaHeader parsed = parse_mpa_header(raw_, kind_);
      header_ = parsed.header;
      if (parsed.error != MpaError::kNone) {
        return fail(parsed.error);
      }
      if (has_ird_ord() && header_.private_data_bytes < IrdOrd::kBytes) {
        return fail(MpaError::kLength);
      }
      if (header_.private_data_bytes > 0) {
        continue;
      }
    }
    return size_ == kMpaHeaderBytes + header_.private_data_bytes ? MpaProgress::kComplete : MpaProgress::kMore;
  }
}

Bytes MpaFrameReader::private_data() const {
  const Bytes all = Bytes(raw_).subspan(kMpaHeaderBytes, header_.private_data_bytes);
  return has_ird_ord() ? all.subspan(IrdOrd::kBytes) : all;
}

MpaProgress MpaResponder::take(Bytes bytes, uint32_t& used) {
  const MpaProgress progress = MpaFrameReader::take(bytes, used);
  if (progress != MpaProgress::kComplete) {
    return progress;
  }
  if (header().revision == 0 || header().revision > kMpaRevisionMax) {
    return fail(MpaError::kRevision);
  }
  if (header().markers) {
    return fail(MpaError::kMarkers);
  }
  if (has_ird_ord()) {
    const IrdOrd offer = ird_ord();
    if (offer.peer_to_peer && !offer.send && !offer.write && !offer.read) {
      return fail(MpaError::kReadyToReceive);
    }
  }
  if (used < bytes.size()) {
    return fail(MpaError::kEarlyData);  // RFC 5044 7.1.3: the initiator waits for the Reply
  }
  return MpaProgress::kComplete;
}

uint32_t MpaResponder::accept(const MpaWishes& wishes, MutableBytes out) {
  session_.crc = wishes.crc || header().crc;
  session_.ird = wishes.ird;
  session_.ord = wishes.ord;
  MpaHeader reply{.kind = MpaFrameKind::kReply, .crc = session_.crc, .revision = header().revision};
  if (!has_ird_ord()) {
    // One READ is always taken: cxgb4 says by it that it is ready, and revision 1 has no place to announce it.
    session_.ird = std::max<uint16_t>(session_.ird, 1);
    return write_frame(reply, nullptr, wishes.private_data, out);
  }
  const IrdOrd offer = ird_ord();
  session_.ready = choose(offer);
  session_.ord = bounded(wishes.ord, offer.ird);
  // We take what the peer wants, as far as we go. One READ is always taken: it may be the sign of readiness.
  session_.ird = std::max<uint16_t>(bounded(wishes.ird, offer.ord), session_.ready == ReadyToReceive::kRead ? 1 : 0);
  const IrdOrd answer{.peer_to_peer = offer.peer_to_peer,
                      .send = session_.ready == ReadyToReceive::kSend,
                      .write = session_.ready == ReadyToReceive::kWrite,
                      .read = session_.ready == ReadyToReceive::kRead,
                      .ird = session_.ird,
                      .ord = session_.ord};
  reply.enhanced = true;
  return write_frame(reply, &answer, wishes.private_data, out);
}

uint32_t MpaResponder::reject(Bytes private_data, MutableBytes out) const {
  MpaHeader reply{.kind = MpaFrameKind::kReply, .reject = true};
  reply.revision = std::clamp<uint8_t>(header().revision, 1, kMpaRevisionMax);
  if (!has_ird_ord()) {
    return write_frame(reply, nullptr, private_data, out);
  }
  // Linux's siw reads the word of a refusal, too.
  const IrdOrd nothing;
  reply.enhanced = true;
  return write_frame(reply, &nothing, private_data, out);
}

uint32_t MpaInitiator::request(const MpaWishes& wishes, MutableBytes out) {
  crc_ = wishes.crc;
  session_.ird = wishes.ird;
  session_.ord = wishes.ord;
  const MpaHeader header{.kind = MpaFrameKind::kRequest, .crc = wishes.crc, .enhanced = true};
  const IrdOrd word{.ird = wishes.ird, .ord = wishes.ord};
  return write_frame(header, &word, wishes.private_data, out);
}

MpaProgress MpaInitiator::take(Bytes bytes, uint32_t& used) {
  const MpaProgress progress = MpaFrameReader::take(bytes, used);
  if (progress != MpaProgress::kComplete) {
    return progress;
  }
  if (header().reject) {
    return MpaProgress::kRejected;
  }
  if (header().markers) {
    return fail(MpaError::kMarkers);
  }
  if (header().revision == 0 || header().revision > kMpaRevisionMax) {
    return fail(MpaError::kRevision);
  }
  session_.crc = crc_ || header().crc;
  if (!has_ird_ord()) {
    return MpaProgress::kComplete;  // a peer of revision 1: the depths are what our users have settled
  }
  const IrdOrd answer = ird_ord();
  // RFC 6581 9.1: we send no more READs than the peer answers. It may have more under way than we asked for.
  session_.ord = bounded(session_.ord, answer.ird);
  if (answer.ord != IrdOrd::kMax) {
    if (answer.ord > kIrdMax) {
      return fail(MpaError::kInsufficientIrd);
    }
    session_.ird = std::max(session_.ird, answer.ord);
  }
  return MpaProgress::kComplete;
}

}  // namespace cw::iwarp
