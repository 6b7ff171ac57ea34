// What the suite asks of a file server, without saying in which version of NFS, and what it is told.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/nfs/call.h"

namespace cw::nfs {

struct Handle {
  ByteVector raw;
  std::array<uint8_t, 16> stateid{};  // of NFSv4's OPEN; the anonymous one until then
};

enum class Kind : uint8_t {
  kGetattr,
  kLookup,
  kReadlink,
  kRead,
  kWrite,
  kCreate,
  kMakeDirectory,
  kSymlink,
  kRemove,           // of anything but a directory
  kRemoveDirectory,  // NFSv4 has one REMOVE for both
  kReaddir,
  kClose,  // NFSv4
};

struct Operation {
  Kind kind = Kind::kGetattr;
  const Handle* on = nullptr;  // the file; the directory for names; nullptr: the root
  std::string name{};
  uint64_t offset = 0;  // READDIR: the cookie
  uint32_t count = 0;   // READ: bytes; READDIR: of the whole result
  Bytes data{};         // WRITE: content; SYMLINK: the link's text
};

inline constexpr uint32_t kFile = 1;  // ftype3, nfs_ftype4
inline constexpr uint32_t kDirectory = 2;
inline constexpr uint32_t kLink = 5;

struct Outcome {
  uint32_t status = 0;  // nfsstat
  Handle handle{};      // LOOKUP, CREATE, MKDIR
  uint32_t type = 0;    // GETATTR
  uint64_t size = 0;
  uint32_t count = 0;  // WRITE
  ByteVector data{};   // READ, READLINK
  bool eof = false;    // READ, READDIR
  std::vector<std::string> names{};
  uint64_t cookie = 0;  // of the last name
};

// A version of NFS over one Caller.
class Version {
 public:
  virtual ~Version() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  // How many operations one call takes.
  [[nodiscard]] virtual size_t operations_max() const = 0;
  // Calls that may be in flight, as far as NFS has a say.
  [[nodiscard]] virtual uint32_t calls_max() const = 0;
  // Finds the root, opens sessions: what has to be before the first operation on a connection. Empty, or what went wrong.
  [[nodiscard]] virtual std::string begin(Caller& caller) = 0;
  virtual void end(Caller& caller) = 0;
  // `lane`: calls in flight together need different ones, below calls_max().
  [[nodiscard]] virtual Call build(std::span<const Operation> operations, uint32_t lane = 0) = 0;
  // Outcomes up to and including the first with a status. Empty, and `problem` says why, for a reply that cannot be understood.
  [[nodiscard]] virtual std::vector<Outcome> decode(std::span<const Operation> operations, const Reply& reply, uint32_t lane,
                                                    std::string& problem) = 0;
};

// The root's handle comes from `root`, see mount3.h.
[[nodiscard]] std::unique_ptr<Version> make_nfs3(ByteVector root);
// `owner`: of the client, other for each connection.
[[nodiscard]] std::unique_ptr<Version> make_nfs41(std::string owner);

}  // namespace cw::nfs
