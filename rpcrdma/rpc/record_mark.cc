#include "rpcrdma/rpc/record_mark.h"

#include <algorithm>
#include <utility>

namespace cw::rpcrdma {

MutableBytes RecordReader::space() {
  if (failed_ || (messages_ready_ > 0 && held_bytes_ > limits_.message_bytes_max)) {
    return {};
  }
  if (tail_open_ && tail_is_spent()) {
    tail_open_ = false;
    if (head_ == tail_ && consumed_ == head_->size) {
      drop_front();
    }
  }
  if (!tail_open_) {
    Buffer* fresh = pool_.allocate_one();
    if (fresh == nullptr) {
      return {};
    }
    if (tail_ == nullptr) {
      head_ = fresh;
    } else {
      tail_->next = fresh;
    }
    tail_ = fresh;
    tail_open_ = true;
  }
  return tail_->tailroom();
}

// A new Buffer is begun early so that a large message is read into few pieces: between messages when under a quarter is left,
// within one when what is left is not worth a read.
bool RecordReader::tail_is_spent() const {
  const uint32_t room = tail_->capacity_bytes - tail_->size;
  return room == 0 || room < tail_->capacity_bytes / (scan_.between_messages() ? 4 : 64);
}

Status RecordReader::on_bytes(uint32_t count) {
  CW_ASSERT(tail_open_ && count <= tail_->capacity_bytes - tail_->size);
  if (failed_) {
    return fail(Error::kBadState);
  }
  const uint8_t* at = tail_->data + tail_->size;
  tail_->size += count;
  held_bytes_ += count;
  while (count > 0) {
    if (scan_.fragment_left > 0) {
      const uint32_t step = std::min(count, scan_.fragment_left);
      at += step;
      count -= step;
      scan_.fragment_left -= step;
      if (scan_.fragment_left == 0) {
        end_fragment();
      }
      continue;
    }
    scan_.mark[scan_.mark_bytes++] = *at++;
    --count;
    if (scan_.mark_bytes == kRecordMarkBytes) {
      if (const Status mark = on_mark(); !mark.ok()) {
        failed_ = true;
        return mark;
      }
    }
  }
  return {};
}

Status RecordReader::on_mark() {
  const uint32_t mark = load_be32(scan_.mark);
  const uint32_t fragment_bytes = mark & ~kLastFragment;
  scan_.mark_bytes = 0;
  scan_.last_fragment = (mark & kLastFragment) != 0;
  scan_.message_bytes += fragment_bytes;
  if (++scan_.fragments > limits_.fragments_max || scan_.message_bytes > limits_.message_bytes_max) {
    return fail(Error::kLimit);
  }
  if (scan_.last_fragment && scan_.message_bytes == 0) {
    return fail(Error::kBadValue);
  }
  scan_.fragment_left = fragment_bytes;
  if (fragment_bytes == 0) {
    end_fragment();
  }
  return {};
}

void RecordReader::end_fragment() {
  if (scan_.last_fragment) {
    ++messages_ready_;
    scan_ = {};
  }
}

bool RecordReader::poll_message(Chain& out) {
  out.clear();
  if (messages_ready_ == 0) {
    return false;
  }
  // Views first: when one is missing nothing has been touched yet.
  Chain views;
  if (!share_pieces(views)) {
    return false;
  }
  assemble(views, out);
  --messages_ready_;
  return true;
}

bool RecordReader::share_pieces(Chain& views) {
  bool complete = true;
  walk_message([&](const Place& place, uint32_t count) {
    if (is_last_use(place, count)) {
      return true;
    }
    Buffer* view = place.buffer->pool->share(*place.buffer, place.offset, count);
    if (view == nullptr) {
      complete = false;
      return false;
    }
    views.push_back(view);
    return true;
  });
  return complete;
}

void RecordReader::assemble(Chain& views, Chain& out) {
  Buffer* view = views.detach();
  const Walk walk = walk_message([&](const Place& place, uint32_t count) {
    if (!is_last_use(place, count)) {
      Buffer* next = std::exchange(view->next, nullptr);
      out.push_back(std::exchange(view, next));
      return true;
    }
    while (head_ != place.buffer) {
      drop_front();
    }
    Buffer* taken = head_;
    head_ = std::exchange(taken->next, nullptr);
    if (head_ == nullptr) {
      tail_ = nullptr;
      tail_open_ = false;
    }
    taken->trim_front(place.offset);
    out.push_back(taken);
    return true;
  });
  while (head_ != walk.end.buffer) {
    drop_front();
  }
  consumed_ = walk.end.offset;
  held_bytes_ -= walk.octets;
  if (head_ != nullptr && consumed_ == head_->size && !(head_ == tail_ && tail_open_)) {
    drop_front();
  }
}

template <typename OnPiece>
RecordReader::Walk RecordReader::walk_message(OnPiece&& on_piece) {
  Place place{head_, consumed_};
  uint64_t octets = 0;
  bool last = false;
  while (!last) {
    const uint32_t mark = take_mark(place);
    octets += kRecordMarkBytes;
    last = (mark & kLastFragment) != 0;
    uint32_t left = mark & ~kLastFragment;
    while (left > 0) {
      while (place.offset == place.buffer->size) {
        place = {place.buffer->next, 0};
      }
      const uint32_t count = std::min(left, place.buffer->size - place.offset);
      // on_piece may unlink the Buffer: where to go on is settled before.
      const Place next = behind(place, count);
      if (!on_piece(place, count)) {
        return {next, octets};
      }
      place = next;
      octets += count;
      left -= count;
    }
  }
  return {place, octets};
}

bool RecordReader::is_last_use(const Place& place, uint32_t count) const {
  const bool may_grow = place.buffer == tail_ && tail_open_ && tail_->size < tail_->capacity_bytes;
  return place.offset + count == place.buffer->size && !may_grow;
}

RecordReader::Place RecordReader::behind(const Place& place, uint32_t count) const {
  if (is_last_use(place, count)) {
    return {place.buffer->next, 0};
  }
  return {place.buffer, place.offset + count};
}

uint32_t RecordReader::take_mark(Place& place) {
  uint32_t mark = 0;
  for (uint32_t i = 0; i < kRecordMarkBytes; ++i) {
    while (place.offset == place.buffer->size) {
      place = {place.buffer->next, 0};
    }
    mark = (mark << 8) | place.buffer->data[place.offset++];
  }
  return mark;
}

void RecordReader::drop_front() {
  Buffer* gone = head_;
  head_ = std::exchange(gone->next, nullptr);
  if (head_ == nullptr) {
    tail_ = nullptr;
    tail_open_ = false;
  }
  consumed_ = 0;
  release_buffers(gone);
}

void RecordReader::reset() {
  if (head_ != nullptr) {
    release_buffers(head_);
  }
  head_ = nullptr;
  tail_ = nullptr;
  tail_open_ = false;
  consumed_ = 0;
  held_bytes_ = 0;
  messages_ready_ = 0;
  failed_ = false;
  scan_ = {};
}

}  // namespace cw::rpcrdma
