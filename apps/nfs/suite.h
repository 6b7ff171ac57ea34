// Every way a call of NFS may travel over RPC-over-RDMA (RFC 8166 3.4, 3.5), tried on a real server, its data compared byte by
// byte. A shape is an operation with a Placement; each is one line of the Report.
//
// All files are made below one directory. Data are peers::pattern_at(): the file NAME-N holds the pattern from N on, so that
// whoever looks at the server's side of it can tell what it has to be.
#pragma once

#include <string>
#include <vector>

#include "apps/nfs/operation.h"
#include "apps/nfs/report.h"

namespace cw::nfs {

// What the connection allows.
struct Limits {
  uint32_t inline_bytes = 1024;  // the smaller direction
  uint32_t segment_bytes = 0;    // longest segment of a chunk; 0 = no matter
  bool quick = false;            // the lengths at which most can go wrong, not all of them
  // What Linux 6.1 does not take, and its own client never sends. Its file server, over any transport, writes wrong data for the
  // second WRITE of a COMPOUND whose data begin in the middle of a page.
  bool is_knfsd = false;
  // Its RPC-over-RDMA: an empty Write chunk is refused with RDMA_ERROR. A second Read chunk makes a call garbage if the first is
  // at Position Zero, else it gets no answer. With Write and Reply chunk both in use the reply has bytes that are not its own.
  // Of an NFSv4 READLINK the length word goes to the Write chunk, not the text. A reply that fits neither inline nor a chunk is
  // sent all the same, longer than our receive, which ends the connection.
  bool is_svcrdma = false;
};

class Suite {
 public:
  Suite(Report& report, Caller& caller, Version& version, const Limits& limits)
      : report_(report), caller_(caller), version_(version), limits_(limits) {}

  // Empty, or why nothing can be tried.
  [[nodiscard]] std::string prepare(const std::string& directory);
  void run();
  // Removes what prepare() and run() made.
  void clean_up(const std::string& directory);

 private:
  struct Done {
    std::vector<Outcome> outcomes;
    Reply reply;
    std::string trouble;  // empty: replied, understood, every operation succeeded, nothing overwritten
  };
  struct Made {
    std::string name;
    Handle handle;
  };
  // A shape, unless the server is known not to serve it.
  void shape(const std::string& name, const Placement& placement, const std::function<std::string()>& attempt) {
    if (is_served(placement)) {
      report_.shape(name, attempt);
    }
  }
  [[nodiscard]] Done run_call(std::span<const Operation> operations, const Placement& placement = {});
  [[nodiscard]] Done run_one(const Operation& operation, const Placement& placement = {}) {
    return run_call({&operation, 1}, placement);
  }
  // Several calls in flight, one operation each.
  [[nodiscard]] std::vector<Done> run_together(std::span<const Operation> operations);
  [[nodiscard]] Done judge(std::span<const Operation> operations, Reply&& reply, uint32_t lane);

  [[nodiscard]] std::string make_file(const std::string& name, Made& made);
  [[nodiscard]] std::string compare(const ByteVector& data, uint64_t pattern_start, size_t bytes) const;
  // The server is made for it.
  [[nodiscard]] bool is_served(const Placement& placement) const;
  [[nodiscard]] bool fits_chunk(uint64_t bytes) const;
  [[nodiscard]] std::vector<uint32_t> lengths(bool in_message) const;

  // Groups of shapes.
  void attributes();
  void writing();
  void reading();
  void links();
  void directories();
  void compounds();
  void removing();
  void faults();
  void together();

  [[nodiscard]] std::string try_write(const std::string& name, uint32_t bytes, const Placement& placement);
  [[nodiscard]] std::string try_read(uint64_t offset, uint32_t bytes, const Placement& placement);
  [[nodiscard]] std::string try_link(const std::string& name, uint32_t bytes, const Placement& make, const Placement& read);
  [[nodiscard]] std::string try_listing(uint32_t count, const Placement& placement);
  [[nodiscard]] std::string try_refused(const Operation& operation, const Placement& placement);

  Report& report_;
  Caller& caller_;
  Version& version_;
  Limits limits_;
  Handle directory_;
  Handle listed_;           // the directory with many names
  Made source_;             // the long file that is read
  std::vector<Made> made_;  // in directory_, files
  std::vector<std::string> links_;
};

}  // namespace cw::nfs
