// Valid NFSv4 COMPOUND replies with random operations and values, written operation by operation from the RFCs' XDR: a second
// statement of what ulb/nfsv4_results.h says, to check it against. The generator knows where it put the eligible items.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "rpcrdma/ulb/binding.h"
#include "tests/unit/rpcrdma/bytes.h"

namespace cw::test {

class CompoundGenerator {
 public:
  explicit CompoundGenerator(uint64_t seed) : random_(seed) {}

  // A whole RPC reply. The last operation fails now and then.
  void make(uint32_t operation_count);
  // A reply that a server may not give: one operation amid the others is unknown, or fails and is followed all the same, or the
  // count is another than there are. items() are those before it, which can be found.
  void make_hostile(uint32_t operation_count);
  // A reply of just these successful operations.
  void make_of(const std::vector<uint32_t>& operations);

  [[nodiscard]] const ByteVector& reply() const { return reply_; }
  void set_xid(uint32_t xid) { store_be32(reply_.data(), xid); }
  [[nodiscard]] const std::vector<rpcrdma::ReducibleItem>& items() const { return items_; }
  [[nodiscard]] const std::vector<uint32_t>& operations() const { return operations_; }

 private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  void word() { add_word(reply_, static_cast<uint32_t>(random_())); }
  void value(uint32_t known) { add_word(reply_, known); }
  void wide() { word(), word(); }  // hyper
  void flag() { value(below(2)); }
  void fixed(uint32_t words);    // opaque[n], n a multiple of 4
  uint32_t count(uint32_t max);  // length word of an array; gives it back
  void string(uint32_t max = 40);
  void bitmap();
  void time();
  void stateid() { fixed(4); }
  void verifier() { fixed(2); }
  void change_info();
  void attributes();
  void ace();
  void delegation();
  void channel();
  void protect();
  void write_response();
  void net_location();
  void read();
  void readlink();
  void read_plus();
  void directory();
  void secinfo();
  void item(uint32_t max);
  void begin();
  void success(uint32_t operation);
  void failure(uint32_t operation);
  void unknown();
  bool success_v40(uint32_t operation);
  bool success_v41(uint32_t operation);
  bool success_v42(uint32_t operation);

  std::mt19937_64 random_;
  ByteVector reply_;
  std::vector<rpcrdma::ReducibleItem> items_;
  std::vector<uint32_t> operations_;
};

}  // namespace cw::test
