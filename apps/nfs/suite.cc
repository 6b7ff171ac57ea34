#include "apps/nfs/suite.h"

#include <algorithm>

#include "apps/nfs/pattern.h"

namespace cw::nfs {
namespace {

constexpr uint32_t kSourceBytes = 300'007;
constexpr uint32_t kNamesListed = 120;
constexpr uint32_t kSegmentsMax = 60;  // of one chunk: beside another, what both sides are made for
constexpr uint32_t kPiece = 65536;

ByteVector pattern(uint64_t start, size_t bytes) {
  ByteVector raw(bytes);
  peers::fill_pattern(raw, start);
  return raw;
}

std::string listed_name(uint32_t number) {
  return fmt::format("a-name-that-is-long-enough-for-a-directory-to-need-a-chunk-{:03}", number);
}

}  // namespace

std::string Suite::prepare(const std::string& directory) {
  Done done = run_one({.kind = Kind::kMakeDirectory, .name = directory});
  if (!done.trouble.empty()) {
    return "MKDIR: " + done.trouble;
  }
  directory_ = done.outcomes.front().handle;
  if (std::string trouble = make_file("source", source_); !trouble.empty()) {
    return trouble;
  }
  const ByteVector data = pattern(0, kSourceBytes);
  const uint32_t piece = fits_chunk(kPiece) ? kPiece : kSegmentsMax * limits_.segment_bytes / 2;
  for (uint32_t at = 0; at < kSourceBytes; at += piece) {
    const Bytes part = Bytes(data).subspan(at, std::min(piece, kSourceBytes - at));
    done = run_one({.kind = Kind::kWrite, .on = &source_.handle, .offset = at, .data = part},
                   {.name = "read-chunk", .read_chunks = true});
    if (!done.trouble.empty()) {
      return "WRITE: " + done.trouble;
    }
  }
  done = run_one({.kind = Kind::kMakeDirectory, .on = &directory_, .name = "listed"});
  if (!done.trouble.empty()) {
    return "MKDIR: " + done.trouble;
  }
  listed_ = done.outcomes.front().handle;
  static constexpr uint8_t kText[] = {'x'};
  std::vector<Operation> operations;
  for (uint32_t i = 0; i < kNamesListed; ++i) {
    operations.push_back({.kind = Kind::kSymlink, .on = &listed_, .name = listed_name(i), .data = kText});
  }
  for (const Done& one : run_together(operations)) {
    if (!one.trouble.empty()) {
      return "SYMLINK: " + one.trouble;
    }
  }
  return "";
}

void Suite::run() {
  attributes();
  writing();
  reading();
  links();
  directories();
  compounds();
  together();
  removing();
  faults();
}

void Suite::clean_up(const std::string& directory) {
  std::vector<Operation> operations;
  for (uint32_t i = 0; i < kNamesListed; ++i) {
    operations.push_back({.kind = Kind::kRemove, .on = &listed_, .name = listed_name(i)});
  }
  for (const Made& made : made_) {
    operations.push_back({.kind = Kind::kRemove, .on = &directory_, .name = made.name});
  }
  for (const std::string& link : links_) {
    operations.push_back({.kind = Kind::kRemove, .on = &directory_, .name = link});
  }
  report_.shape("clean-up", [&]() -> std::string {
    for (const Made& made : made_) {
      if (version_.operations_max() > 1) {
        (void)run_one({.kind = Kind::kClose, .on = &made.handle});
      }
    }
    for (const Done& one : run_together(operations)) {
      if (!one.trouble.empty()) {
        return one.trouble;
      }
    }
    const Done done = run_one({.kind = Kind::kRemoveDirectory, .on = &directory_, .name = "listed"});
    return done.trouble.empty() ? run_one({.kind = Kind::kRemoveDirectory, .name = directory}).trouble : done.trouble;
  });
}

Suite::Done Suite::run_call(std::span<const Operation> operations, const Placement& placement) {
  const Call call = version_.build(operations);
  const Request request{.call = &call, .placement = placement};
  return judge(operations, std::move(caller_.exchange({&request, 1}).front()), 0);
}

std::vector<Suite::Done> Suite::run_together(std::span<const Operation> operations) {
  std::vector<Done> all;
  for (size_t first = 0; first < operations.size();) {
    const size_t count = std::min<size_t>(operations.size() - first, version_.calls_max());
    std::vector<Call> calls;
    calls.reserve(count);
    std::vector<Request> requests;
    for (size_t i = 0; i < count; ++i) {
      calls.push_back(version_.build(operations.subspan(first + i, 1), static_cast<uint32_t>(i)));
      requests.push_back({.call = &calls.back(), .placement = {}});
    }
    std::vector<Reply> replies = caller_.exchange(requests);
    for (size_t i = 0; i < count; ++i) {
      all.push_back(judge(operations.subspan(first + i, 1), std::move(replies[i]), static_cast<uint32_t>(i)));
    }
    first += count;
  }
  return all;
}

Suite::Done Suite::judge(std::span<const Operation> operations, Reply&& reply, uint32_t lane) {
  Done done;
  done.reply = std::move(reply);
  if (!done.reply.refused.empty()) {
    done.trouble = "our endpoint does not send the call: " + done.reply.refused;
    return done;
  }
  done.outcomes = version_.decode(operations, done.reply, lane, done.trouble);
  if (done.reply.status != rpcrdma::CallStatus::kReplied) {
    done.trouble = expected("a reply", rpcrdma::to_string(done.reply.status));
  } else if (!done.trouble.empty()) {
    done.trouble = expected("a reply that can be read", done.trouble);
  } else if (done.reply.overrun) {
    done.trouble = expected("memory untouched behind the chunks", "other bytes there");
  } else if (done.outcomes.back().status != 0 || done.outcomes.size() != operations.size()) {
    done.trouble = expected("status 0", fmt::format("{} of operation {}", done.outcomes.back().status, done.outcomes.size()));
  }
  return done;
}

std::string Suite::make_file(const std::string& name, Made& made) {
  const Done done = run_one({.kind = Kind::kCreate, .on = &directory_, .name = name});
  if (!done.trouble.empty()) {
    return "CREATE: " + done.trouble;
  }
  made = {name, done.outcomes.front().handle};
  made_.push_back(made);
  return made.handle.raw.empty() ? "CREATE: " + expected("a file handle", "none") : "";
}

std::string Suite::compare(const ByteVector& data, uint64_t pattern_start, size_t bytes) const {
  if (data.size() != bytes) {
    return expected(fmt::format("{} bytes", bytes), fmt::format("{}", data.size()));
  }
  for (size_t i = 0; i < bytes; ++i) {
    if (const uint8_t right = peers::pattern_at(pattern_start + i); data[i] != right) {
      return expected(fmt::format("byte {} = {}", i, right), fmt::format("{}", data[i]));
    }
  }
  return "";
}

bool Suite::is_served(const Placement& placement) const {
  const bool has_empty = std::find(placement.writes.begin(), placement.writes.end(), 0u) != placement.writes.end();
  const bool in_use = placement.reply_bytes > 0 && !placement.writes.empty();
  return !limits_.is_svcrdma || !(has_empty || in_use || (placement.position_zero && placement.read_chunks));
}

bool Suite::fits_chunk(uint64_t bytes) const {
  return limits_.segment_bytes == 0 || bytes <= uint64_t{kSegmentsMax} * limits_.segment_bytes;
}

// Around every size at which something changes: the roundup, the inline thresholds, a page, the path MTUs.
std::vector<uint32_t> Suite::lengths(bool in_message) const {
  std::vector<uint32_t> all = {1, 2, 3, 4, 501};
  if (in_message && limits_.inline_bytes >= 4096) {
    all.insert(all.end(), {1022, 2047, 3001});
  } else if (!in_message && limits_.quick) {
    all.insert(all.end(), {4095, 65538});
  } else if (!in_message) {
    all.insert(all.end(), {1023, 1024, 4093, 4094, 4095, 4096, 4097, 8191, 65535, 65538, 122'877});
    all.erase(std::remove_if(all.begin(), all.end(), [this](uint32_t bytes) { return !fits_chunk(bytes + 1024); }), all.end());
  }
  return all;
}

void Suite::attributes() {
  const Placement placements[] = {
      {.name = "inline"},
      {.name = "unused-write", .writes = {4096}},
      {.name = "empty-write", .writes = {0}},
      {.name = "unused-reply", .reply_bytes = 4096},
      {.name = "unused-both", .writes = {4096}, .reply_bytes = 4096},
      {.name = "position-zero", .position_zero = true},
      {.name = "position-zero-unused-both", .position_zero = true, .writes = {4096}, .reply_bytes = 4096}};
  for (const Placement& placement : placements) {
    shape(fmt::format("getattr/{}", placement.name), placement, [&]() -> std::string {
      const Done done = run_one({.kind = Kind::kGetattr, .on = &source_.handle}, placement);
      if (!done.trouble.empty()) {
        return done.trouble;
      }
      const Outcome& outcome = done.outcomes.front();
      return outcome.type == kFile && outcome.size == kSourceBytes
                 ? ""
                 : expected(fmt::format("a file of {} bytes", kSourceBytes),
                            fmt::format("type {} of {}", outcome.type, outcome.size));
    });
  }
}

std::string Suite::try_write(const std::string& name, uint32_t bytes, const Placement& placement) {
  Made file;
  if (std::string trouble = make_file(name, file); !trouble.empty()) {
    return trouble;
  }
  const ByteVector data = pattern(bytes, bytes);
  const Done written = run_one({.kind = Kind::kWrite, .on = &file.handle, .data = data}, placement);
  if (!written.trouble.empty()) {
    return written.trouble;
  }
  if (written.outcomes.front().count != bytes) {
    return expected(fmt::format("{} bytes written", bytes), fmt::format("{}", written.outcomes.front().count));
  }
  const Done read =
      run_one({.kind = Kind::kRead, .on = &file.handle, .count = bytes + 1}, {.name = "write-chunk", .writes = {bytes + 1}});
  return read.trouble.empty() ? compare(read.outcomes.front().data, bytes, bytes) : read.trouble;
}

void Suite::writing() {
  const Placement placements[] = {
      {.name = "inline"},
      {.name = "inline-unused-both", .writes = {1024}, .reply_bytes = 1024},
      {.name = "read-chunk", .read_chunks = true},
      {.name = "read-chunk-unused-both", .read_chunks = true, .writes = {1024}, .reply_bytes = 1024},
      {.name = "position-zero", .position_zero = true},
      {.name = "position-zero-read-chunk", .position_zero = true, .read_chunks = true},
  };
  for (const Placement& placement : placements) {
    const bool in_message = !placement.read_chunks && !placement.position_zero;
    for (const uint32_t bytes : lengths(in_message)) {
      if (in_message && !placement.writes.empty() && bytes > 501) {
        continue;  // the chunk lists take their part of the message
      }
      const std::string name = fmt::format("{}-{}", placement.name, bytes);
      shape("write/" + name, placement, [&] { return try_write(name, bytes, placement); });
    }
  }
  report_.shape("write/empty-inline-0", [&] { return try_write("empty-inline-0", 0, {}); });
}

std::string Suite::try_read(uint64_t offset, uint32_t bytes, const Placement& placement) {
  const Done done = run_one({.kind = Kind::kRead, .on = &source_.handle, .offset = offset, .count = bytes}, placement);
  if (!done.trouble.empty()) {
    return done.trouble;
  }
  const uint32_t left = offset < kSourceBytes ? static_cast<uint32_t>(kSourceBytes - offset) : 0;
  const Outcome& outcome = done.outcomes.front();
  if (outcome.eof != (bytes >= left)) {
    return expected(bytes >= left ? "the end of the file" : "more to come", outcome.eof ? "its end" : "no end");
  }
  const bool in_chunk = !placement.writes.empty() && placement.writes.front() > 0;
  if (placement.reply_bytes > 0 && !in_chunk && bytes > limits_.inline_bytes && !done.reply.in_reply_chunk) {
    return expected("the reply in the Reply chunk", "it inline");
  }
  return compare(outcome.data, offset, std::min(bytes, left));
}

void Suite::reading() {
  for (const uint32_t bytes : lengths(true)) {
    report_.shape(fmt::format("read/inline-{}", bytes), [&] { return try_read(11, bytes, {}); });
  }
  for (const uint32_t bytes : lengths(false)) {
    const Placement placements[] = {
        {.name = "write-chunk", .writes = {bytes}},
        {.name = "write-chunk-and-reply", .writes = {bytes}, .reply_bytes = 512},
        {.name = "write-chunk-too-long", .writes = {bytes + 1000}},
        {.name = "two-write-chunks", .writes = {bytes, 1000}},
        {.name = "reply-chunk", .reply_bytes = bytes + 512},
        {.name = "empty-write-and-reply", .writes = {0}, .reply_bytes = bytes + 512},
        {.name = "position-zero-write-chunk", .position_zero = true, .writes = {bytes}},
        {.name = "position-zero-reply-chunk", .position_zero = true, .reply_bytes = bytes + 512},
    };
    for (const Placement& placement : placements) {
      shape(fmt::format("read/{}-{}", placement.name, bytes), placement, [&] { return try_read(13, bytes, placement); });
    }
  }
  // The end of the file: a short result, and an empty one.
  const Placement placements[] = {{.name = "inline"},
                                  {.name = "write-chunk", .writes = {400}},
                                  {.name = "reply-chunk", .reply_bytes = 1000},
                                  {.name = "write-chunk-and-reply", .writes = {400}, .reply_bytes = 1000}};
  for (const Placement& placement : placements) {
    shape(fmt::format("read/short-{}", placement.name), placement, [&] { return try_read(kSourceBytes - 101, 400, placement); });
    shape(fmt::format("read/at-end-{}", placement.name), placement, [&] { return try_read(kSourceBytes, 400, placement); });
    shape(fmt::format("read/nothing-{}", placement.name), placement, [&] { return try_read(5, 0, placement); });
  }
}

std::string Suite::try_link(const std::string& name, uint32_t bytes, const Placement& make, const Placement& read) {
  const ByteVector text = pattern(bytes, bytes);  // no zero in it; a server ignores the rest
  ByteVector path = text;
  std::replace(path.begin(), path.end(), uint8_t{'/'}, uint8_t{'x'});
  std::transform(path.begin(), path.end(), path.begin(), [](uint8_t byte) { return uint8_t(33 + byte % 14); });
  const Done made = run_one({.kind = Kind::kSymlink, .on = &directory_, .name = name, .data = path}, make);
  if (!made.trouble.empty()) {
    return "SYMLINK: " + made.trouble;
  }
  links_.push_back(name);
  const Done found = run_one({.kind = Kind::kLookup, .on = &directory_, .name = name});
  if (!found.trouble.empty()) {
    return "LOOKUP: " + found.trouble;
  }
  const Done done = run_one({.kind = Kind::kReadlink, .on = &found.outcomes.front().handle}, read);
  if (!done.trouble.empty()) {
    return done.trouble;
  }
  return done.outcomes.front().data == path ? "" : expected(fmt::format("the text of {} bytes", bytes), "another");
}

void Suite::links() {
  const Placement makes[] = {{.name = "inline"},
                             {.name = "read-chunk", .read_chunks = true},
                             {.name = "position-zero", .position_zero = true},
                             {.name = "position-zero-read-chunk", .position_zero = true, .read_chunks = true}};
  for (const uint32_t bytes : {1u, 2u, 3u, 4u, 255u, 502u, 1021u}) {
    const Placement reads[] = {{.name = "inline", .reply_bytes = bytes > 502 ? 2048u : 0u},
                               {.name = "write-chunk", .writes = {1024}},
                               {.name = "reply-chunk", .reply_bytes = 2048},
                               {.name = "write-chunk-and-reply", .writes = {1024}, .reply_bytes = 2048}};
    for (size_t i = 0; i < std::size(makes); ++i) {
      const bool knfsd_misplaces = limits_.is_svcrdma && version_.operations_max() > 1 && !reads[i].writes.empty();
      if ((i == 0 && bytes > 502) || knfsd_misplaces) {
        continue;
      }
      const std::string name = fmt::format("link-{}-{}-{}", makes[i].name, reads[i].name, bytes);
      if (is_served(makes[i]) && is_served(reads[i])) {
        report_.shape("symlink/" + name, [&] { return try_link(name, bytes, makes[i], reads[i]); });
      }
    }
  }
}

std::string Suite::try_listing(uint32_t count, const Placement& placement) {
  std::vector<std::string> names;
  uint64_t cookie = 0;
  for (bool more = true; more;) {
    const Done done = run_one({.kind = Kind::kReaddir, .on = &listed_, .offset = cookie, .count = count}, placement);
    if (!done.trouble.empty()) {
      return done.trouble;
    }
    const Outcome& outcome = done.outcomes.front();
    std::copy_if(outcome.names.begin(), outcome.names.end(), std::back_inserter(names),
                 [](const std::string& name) { return name != "." && name != ".."; });
    more = !outcome.eof;
    if (more && (outcome.names.empty() || names.size() > kNamesListed)) {
      return expected("a list that ends", fmt::format("{} names so far", names.size()));
    }
    cookie = outcome.cookie;
  }
  std::sort(names.begin(), names.end());
  for (uint32_t i = 0; i < kNamesListed; ++i) {
    if (i >= names.size() || names[i] != listed_name(i)) {
      return expected(listed_name(i), i < names.size() ? names[i] : "the end of the list");
    }
  }
  return names.size() == kNamesListed ? "" : expected(fmt::format("{} names", kNamesListed), fmt::format("{}", names.size()));
}

void Suite::directories() {
  report_.shape("readdir/inline", [&] { return try_listing(700, {}); });
  const Placement unused_both{.writes = {1024}, .reply_bytes = 2048};
  shape("readdir/unused-both", unused_both, [&] { return try_listing(700, unused_both); });
  for (const uint32_t count : {2000u, 8192u, 16384u}) {
    report_.shape(fmt::format("readdir/reply-chunk-{}", count), [&] { return try_listing(count, {.reply_bytes = count + 512}); });
    report_.shape(fmt::format("readdir/position-zero-reply-chunk-{}", count),
                  [&] { return try_listing(count, {.position_zero = true, .reply_bytes = count + 512}); });
  }
}

// Several operations with eligible arguments or results in one call.
void Suite::compounds() {
  if (version_.operations_max() < 2) {
    return;
  }
  const auto reads = [&](uint32_t first, uint32_t second, const Placement& placement) -> std::string {
    const Operation operations[] = {{.kind = Kind::kRead, .on = &source_.handle, .offset = 17, .count = first},
                                    {.kind = Kind::kRead, .on = &source_.handle, .offset = 4001, .count = second}};
    const Done done = run_call(operations, placement);
    if (!done.trouble.empty()) {
      return done.trouble;
    }
    const std::string trouble = compare(done.outcomes[0].data, 17, first);
    return trouble.empty() ? compare(done.outcomes[1].data, 4001, second) : trouble;
  };
  const auto try_reads = [&](const std::string& name, uint32_t first, uint32_t second, const Placement& placement) {
    shape("compound/" + name, placement, [&] { return reads(first, second, placement); });
  };
  try_reads("two-reads-two-write-chunks", 5001, 4098, {.writes = {5001, 4098}});
  try_reads("two-reads-one-write-chunk", 5003, 203, {.writes = {5003}});
  try_reads("two-reads-empty-and-write-chunk", 201, 4099, {.writes = {0, 4099}});
  try_reads("two-reads-write-and-reply-chunk", 5002, 4097, {.writes = {5002}, .reply_bytes = 8192});
  try_reads("two-reads-reply-chunk", 5002, 4097, {.reply_bytes = 16384});
  const auto writes = [&](const std::string& name, uint32_t bytes, const Placement& placement) -> std::string {
    Made file;
    if (std::string trouble = make_file(name, file); !trouble.empty()) {
      return trouble;
    }
    const ByteVector data = pattern(bytes, bytes);
    const uint32_t half = bytes / 2;
    const Operation operations[] = {{.kind = Kind::kWrite, .on = &file.handle, .data = Bytes(data).first(half)},
                                    {.kind = Kind::kWrite, .on = &file.handle, .offset = half, .data = Bytes(data).subspan(half)},
                                    {.kind = Kind::kRead, .on = &file.handle, .count = bytes}};
    const Done done = run_call(operations, placement);
    return done.trouble.empty() ? compare(done.outcomes[2].data, bytes, bytes) : done.trouble;
  };
  for (const uint32_t bytes : {10u, 16u, 3203u, 9003u}) {
    if (limits_.is_knfsd && bytes > 4096) {
      continue;
    }
    const Placement placements[] = {
        {.name = "two-writes-two-read-chunks", .read_chunks = true, .writes = {bytes}},
        {.name = "two-writes-position-zero", .position_zero = true, .writes = {bytes}},
        {.name = "two-writes-all", .position_zero = true, .read_chunks = true, .reply_bytes = bytes + 1024}};
    for (const Placement& placement : placements) {
      if (limits_.is_svcrdma && placement.read_chunks) {
        continue;
      }
      const std::string name = fmt::format("{}-{}", placement.name, bytes);
      shape("compound/" + name, placement, [&] { return writes(name, bytes, placement); });
    }
  }
}

// More calls at once than any server grants credits for.
void Suite::together() {
  report_.shape("credits/getattr", [&]() -> std::string {
    std::vector<Operation> operations(200, {.kind = Kind::kGetattr, .on = &source_.handle});
    for (const Done& done : run_together(operations)) {
      if (!done.trouble.empty() || done.outcomes.front().size != kSourceBytes) {
        return done.trouble.empty() ? expected("the right size", "another") : done.trouble;
      }
    }
    return "";
  });
}

void Suite::removing() {
  const Placement placements[] = {{.name = "inline"},
                                  {.name = "unused-both", .writes = {512}, .reply_bytes = 512},
                                  {.name = "position-zero", .position_zero = true}};
  for (const Placement& placement : placements) {
    const std::string name = fmt::format("removed-{}", placement.name);
    shape("create/" + name, placement, [&]() -> std::string {
      const Done done = run_one({.kind = Kind::kCreate, .on = &directory_, .name = name}, placement);
      if (done.trouble.empty() && version_.operations_max() > 1) {
        return run_one({.kind = Kind::kClose, .on = &done.outcomes.front().handle}, placement).trouble;
      }
      return done.trouble;
    });
    shape("remove/" + name, placement, [&]() -> std::string {
      const Done done = run_one({.kind = Kind::kRemove, .on = &directory_, .name = name}, placement);
      if (!done.trouble.empty()) {
        return done.trouble;
      }
      const Done gone = run_one({.kind = Kind::kLookup, .on = &directory_, .name = name});
      const uint32_t status = gone.outcomes.empty() ? 0 : gone.outcomes.front().status;
      return status == 2 ? "" : expected("NFSERR_NOENT", fmt::format("{}", status));
    });
  }
}

std::string Suite::try_refused(const Operation& operation, const Placement& placement) {
  const Done done = run_one(operation, placement);
  const bool failed_as_nfs = !done.outcomes.empty() && done.outcomes.back().status != 0;  // knfsd's answer to some
  if (done.reply.status != rpcrdma::CallStatus::kErrorChunk && !failed_as_nfs) {
    return expected(rpcrdma::to_string(rpcrdma::CallStatus::kErrorChunk),
                    done.reply.refused.empty() ? rpcrdma::to_string(done.reply.status) : done.trouble);
  }
  // The connection goes on.
  const Done after = run_one({.kind = Kind::kGetattr, .on = &source_.handle});
  return after.trouble.empty() ? "" : "afterwards: " + after.trouble;
}

void Suite::faults() {
  const Operation listing{.kind = Kind::kReaddir, .on = &listed_, .count = 8192};
  const Operation read{.kind = Kind::kRead, .on = &source_.handle, .offset = 7, .count = 5001};
  const auto refused = [&](const std::string& name, const Operation& operation, const Placement& placement) {
    shape("fault/" + name, placement, [&] { return try_refused(operation, placement); });
  };
  refused("reply-chunk-too-small", listing, {.reply_bytes = 512});
  refused("reply-chunk-too-small-for-data", read, {.reply_bytes = 5001});
  refused("write-chunk-too-small", read, {.writes = {5000}});
  refused("write-chunk-too-small-beside-reply-chunk", read, {.writes = {1000}, .reply_bytes = 8192});
  refused("empty-chunk-for-long-data", read, {.writes = {0}});
  if (!limits_.is_svcrdma) {
    refused("no-chunk-for-a-long-reply", listing, {});
  }
}

}  // namespace cw::nfs
