#include "tests/unit/rpcrdma/compound_generator.h"

namespace cw::test {

void CompoundGenerator::fixed(uint32_t words) {
  for (uint32_t i = 0; i < words; ++i) {
    word();
  }
}

uint32_t CompoundGenerator::count(uint32_t max) {
  const uint32_t chosen = below(max + 1);
  value(chosen);
  return chosen;
}

void CompoundGenerator::string(uint32_t max) {
  ByteVector content(below(max + 1));
  for (uint8_t& byte : content) {
    byte = static_cast<uint8_t>(random_());
  }
  add_opaque(reply_, content);
}

void CompoundGenerator::bitmap() {
  fixed(count(4));
}

void CompoundGenerator::time() {
  wide();
  word();
}

void CompoundGenerator::change_info() {
  flag();
  wide();
  wide();
}

void CompoundGenerator::attributes() {
  bitmap();
  string(200);
}

void CompoundGenerator::ace() {
  word();
  word();
  word();
  string();
}

// open_delegation4
void CompoundGenerator::delegation() {
  const uint32_t type = below(6);
  value(type);
  if (type == 1 || type == 4) {
    stateid();
    flag();
    ace();
  } else if (type == 2 || type == 5) {
    stateid();
    flag();
    const uint32_t limit = 1 + below(2);
    value(limit);
    if (limit == 1) {
      wide();  // NFS_LIMIT_SIZE
    } else {
      word();
      word();
    }
    ace();
  } else if (type == 3) {
    const uint32_t why = below(9);
    value(why);
    if (why == 1 || why == 2) {
      flag();
    }
  }
}

// channel_attrs4
void CompoundGenerator::channel() {
  fixed(6);
  fixed(count(1));
}

// state_protect4_r
void CompoundGenerator::protect() {
  const uint32_t how = below(3);
  value(how);
  if (how == 0) {
    return;
  }
  bitmap();
  bitmap();
  if (how == 2) {
    fixed(4);
    for (uint32_t i = count(3); i > 0; --i) {
      string();
    }
  }
}

void CompoundGenerator::write_response() {
  for (uint32_t i = count(1); i > 0; --i) {
    stateid();
  }
  wide();
  word();
  verifier();
}

void CompoundGenerator::net_location() {
  const uint32_t type = 1 + below(3);
  value(type);
  string();
  if (type == 3) {
    string();
  }
}

void CompoundGenerator::item(uint32_t max) {
  const auto offset = static_cast<uint64_t>(reply_.size()) + 4;
  string(max);
  items_.push_back({.offset = offset, .length = load_be32(reply_.data() + offset - 4)});
}

void CompoundGenerator::read() {
  flag();
  item(600);
}

void CompoundGenerator::readlink() {
  item(100);
}

void CompoundGenerator::read_plus() {
  flag();
  bool listed = false;
  for (uint32_t i = count(4); i > 0; --i) {
    const bool data = below(2) == 0;
    value(data ? 0 : 1);
    wide();
    if (!data) {
      wide();
    } else if (!listed) {
      item(300);
      listed = true;
    } else {
      string(300);
    }
  }
  if (!listed) {
    items_.push_back({.offset = reply_.size(), .length = 0});
  }
}

void CompoundGenerator::directory() {
  verifier();
  for (uint32_t i = below(5); i > 0; --i) {
    value(1);
    wide();
    string();
    attributes();
  }
  value(0);
  flag();
}

void CompoundGenerator::secinfo() {
  for (uint32_t i = count(4); i > 0; --i) {
    const uint32_t flavor = below(2) == 0 ? 6 : below(6);
    value(flavor);
    if (flavor == 6) {
      string();
      word();
      word();
    }
  }
}

// One line per operation reads as the RFCs' lists do.
// clang-format off
bool CompoundGenerator::success_v40(uint32_t operation) {
  switch (operation) {
    case 3: word(); word(); return true;                                // ACCESS
    case 5: verifier(); return true;                                    // COMMIT
    case 4: case 12: case 14: case 20: case 21: stateid(); return true; // CLOSE LOCK LOCKU OPEN_CONFIRM OPEN_DOWNGRADE
    case 6: change_info(); bitmap(); return true;                       // CREATE
    case 9: attributes(); return true;                                  // GETATTR
    case 10: string(128); return true;                                  // GETFH
    case 11: case 28: change_info(); return true;                       // LINK REMOVE
    case 18: stateid(); change_info(); word(); bitmap(); delegation(); return true;  // OPEN
    case 25: read(); return true;
    case 26: directory(); return true;
    case 27: readlink(); return true;
    case 29: change_info(); change_info(); return true;                 // RENAME
    case 33: secinfo(); return true;
    case 34: bitmap(); return true;                                     // SETATTR
    case 35: wide(); verifier(); return true;                           // SETCLIENTID
    case 38: word(); word(); verifier(); return true;                   // WRITE
    default: return operation < 40;                                     // nothing behind the status
  }
}

bool CompoundGenerator::success_v41(uint32_t operation) {
  switch (operation) {
    case 41: fixed(4); word(); flag(); return true;  // BIND_CONN_TO_SESSION
    case 42:                                         // EXCHANGE_ID
      wide();
      word();
      word();
      protect();
      wide();
      string();
      string();
      for (uint32_t i = count(1); i > 0; --i) {
        string();
        string();
        time();
      }
      return true;
    case 43: fixed(4); word(); word(); channel(); channel(); return true;  // CREATE_SESSION
    case 46:                                                               // GET_DIR_DELEGATION
      if (below(2) == 0) {
        value(0);
        verifier();
        stateid();
        bitmap();
        bitmap();
        bitmap();
      } else {
        value(1);
        flag();
      }
      return true;
    case 47: word(); string(300); bitmap(); return true;  // GETDEVICEINFO
    case 48:                                              // GETDEVICELIST
      wide();
      verifier();
      for (uint32_t i = count(3); i > 0; --i) {
        fixed(4);
      }
      flag();
      return true;
    case 49:  // LAYOUTCOMMIT
      if (count(1) == 1) {
        wide();
      }
      return true;
    case 50:  // LAYOUTGET
      flag();
      stateid();
      for (uint32_t i = count(3); i > 0; --i) {
        wide();
        wide();
        word();
        word();
        string(200);
      }
      return true;
    case 51:  // LAYOUTRETURN
      if (count(1) == 1) {
        stateid();
      }
      return true;
    case 52: secinfo(); return true;
    case 53: fixed(4); fixed(5); return true;  // SEQUENCE
    case 54: string(); return true;            // SET_SSV
    case 55: fixed(count(5)); return true;     // TEST_STATEID
    case 56: delegation(); return true;        // WANT_DELEGATION
    default: return operation >= 40 && operation < 59;
  }
}

bool CompoundGenerator::success_v42(uint32_t operation) {
  switch (operation) {
    case 60: write_response(); flag(); flag(); return true;  // COPY
    case 61:                                                 // COPY_NOTIFY
      time();
      stateid();
      for (uint32_t i = count(3); i > 0; --i) {
        net_location();
      }
      return true;
    case 63: bitmap(); return true;                // IO_ADVISE
    case 67: wide(); fixed(count(1)); return true; // OFFLOAD_STATUS
    case 68: read_plus(); return true;
    case 69: flag(); wide(); return true;          // SEEK
    case 70: write_response(); return true;        // WRITE_SAME
    case 72: string(300); return true;             // GETXATTR
    case 73: case 75: change_info(); return true;  // SETXATTR REMOVEXATTR
    case 74:                                       // LISTXATTRS
      wide();
      for (uint32_t i = count(5); i > 0; --i) {
        string();
      }
      flag();
      return true;
    default: return operation >= 59;
  }
}

void CompoundGenerator::success(uint32_t operation) {
  value(operation);
  value(0);
  CW_ASSERT(success_v40(operation) || success_v41(operation) || success_v42(operation));
}

// Errors that carry data, and any other.
void CompoundGenerator::failure(uint32_t operation) {
  value(operation);
  switch (operation) {
    case 12: case 13:  // LOCK, LOCKT denied
      value(10010);
      wide();
      wide();
      word();
      wide();
      string();
      return;
    case 34: value(1); bitmap(); return;              // SETATTR
    case 35: value(10017); string(); string(); return;  // SETCLIENTID in use
    case 47: value(10005); word(); return;            // GETDEVICEINFO too small
    case 50: value(10058); flag(); return;            // LAYOUTGET try later
    case 60: value(10094); flag(); flag(); return;    // COPY
    default: value(1 + below(10096));
  }
}
// clang-format on

void CompoundGenerator::begin() {
  reply_.clear();
  items_.clear();
  operations_.clear();
  add_words(reply_, {static_cast<uint32_t>(random_()), 1, 0, 6});
  string(28);
  value(0);
}

void CompoundGenerator::make_of(const std::vector<uint32_t>& operations) {
  begin();
  value(0);
  string();
  value(static_cast<uint32_t>(operations.size()));
  for (const uint32_t operation : operations) {
    operations_.push_back(operation);
    success(operation);
  }
}

void CompoundGenerator::make(uint32_t operation_count) {
  begin();
  const bool fails = operation_count > 0 && below(4) == 0;
  value(fails ? 1 + below(10096) : 0);
  string();
  value(operation_count);
  for (uint32_t i = 0; i < operation_count; ++i) {
    static constexpr uint32_t kReads[] = {25, 27, 68};
    const uint32_t operation = below(3) == 0 ? kReads[below(3)] : 3 + below(73);
    operations_.push_back(operation);
    if (fails && i + 1 == operation_count) {
      failure(operation);
    } else {
      success(operation);
    }
  }
}

// An operation of a future minor version, or RFC 7530's ILLEGAL with a status that it may not have.
void CompoundGenerator::unknown() {
  static constexpr uint32_t kNumbers[] = {0, 1, 2, 76, 77, 1000, 10044, 0x7fff'ffff, 0xffff'ffff};
  value(kNumbers[below(9)]);
  value(0);
  for (uint32_t words = below(6); words > 0; --words) {
    word();
  }
}

void CompoundGenerator::make_hostile(uint32_t operation_count) {
  begin();
  value(0);
  string();
  const uint32_t kind = below(3);
  const uint32_t at = below(operation_count);
  value(kind == 2 ? static_cast<uint32_t>(random_()) : operation_count);
  for (uint32_t i = 0; i < operation_count; ++i) {
    static constexpr uint32_t kReads[] = {25, 25, 27, 68};
    const uint32_t operation = below(2) == 0 ? kReads[below(4)] : 3 + below(73);
    operations_.push_back(operation);
    if (i == at && kind == 0) {
      unknown();
    } else if (i == at && kind == 1) {
      failure(operation);
    } else {
      const size_t before = items_.size();
      success(operation);
      if (i > at && kind < 2) {
        items_.resize(before);
      }
    }
  }
}

}  // namespace cw::test
