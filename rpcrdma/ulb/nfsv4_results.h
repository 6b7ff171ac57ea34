// What NFSv4 operations answer when they succeed, as XDR shapes: RFC 7530/7531 (4.0), RFC 8881/5662 (4.1), RFC 7862/7863 (4.2),
// RFC 8276 (extended attributes), RFC 9754 (two more delegation types). Only the success arms are needed: an operation with any
// other status ends its COMPOUND, so nothing that could be reduced stands behind it. For the same reason the few error arms that
// carry data (LOCK and LOCKT denied, SETCLIENTID in use, GETDEVICEINFO too small, LAYOUTGET try later, COPY without resources)
// and SETATTR's bitmap after an error need no shape.
#pragma once

#include <array>
#include <cstdint>

#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma::nfsv4 {

inline constexpr uint32_t kOperationFirst = 3;  // ACCESS
inline constexpr uint32_t kOperationLast = 75;  // REMOVEXATTR

// Sizes in words.
inline constexpr uint32_t kVerifier = 2;
inline constexpr uint32_t kStateid = 4;
inline constexpr uint32_t kSessionId = 4;
inline constexpr uint32_t kDeviceId = 4;
inline constexpr uint32_t kTime = 3;
inline constexpr uint32_t kChangeInfo = 5;

inline constexpr Element kWord[] = {words(1)};
inline constexpr Element kString[] = {opaque()};
constexpr Element bitmap() {
  return array_of(kWord);
}

inline constexpr Element kAccess[] = {words(2)};
inline constexpr Element kStateidOnly[] = {words(kStateid)};
inline constexpr Element kVerifierOnly[] = {words(kVerifier)};
inline constexpr Element kChangeOnly[] = {words(kChangeInfo)};
inline constexpr Element kBitmapOnly[] = {bitmap()};
inline constexpr Element kCreate[] = {words(kChangeInfo), bitmap()};
inline constexpr Element kAttributes[] = {bitmap(), opaque()};
inline constexpr Element kRead[] = {words(1), reducible()};
inline constexpr Element kReadlink[] = {reducible()};
inline constexpr Element kRename[] = {words(2 * kChangeInfo)};
inline constexpr Element kSetclientid[] = {words(2 + kVerifier)};
inline constexpr Element kWrite[] = {words(2 + kVerifier)};

// OPEN and WANT_DELEGATION: open_delegation4.
inline constexpr Element kLimitSize[] = {words(2)};
inline constexpr Element kLimitBlocks[] = {words(2)};
inline constexpr Arm kSpaceLimit[] = {{1, shape(kLimitSize)}, {2, shape(kLimitBlocks)}};
inline constexpr Element kReadDelegation[] = {words(kStateid + 1), words(3), opaque()};
inline constexpr Element kWriteDelegation[] = {words(kStateid + 1), union_of(kSpaceLimit), words(3), opaque()};
inline constexpr Arm kWhyNone[] = {{1, shape(kWord)}, {2, shape(kWord)}};
inline constexpr Element kNoDelegation[] = {union_of(kWhyNone)};
inline constexpr Arm kDelegation[] = {{1, shape(kReadDelegation)},
                                      {2, shape(kWriteDelegation)},
                                      {3, shape(kNoDelegation)},
                                      {4, shape(kReadDelegation)},
                                      {5, shape(kWriteDelegation)}};
inline constexpr Element kDelegationOnly[] = {union_of(kDelegation)};
inline constexpr Element kOpen[] = {words(kStateid), words(kChangeInfo), words(1), bitmap(), union_of(kDelegation)};

// READDIR: cookie, name, attributes per entry.
inline constexpr Element kEntry[] = {words(2), opaque(), bitmap(), opaque()};
inline constexpr Element kReaddir[] = {words(kVerifier), list_of(kEntry), words(1)};

// SECINFO: RPCSEC_GSS brings mechanism, quality and service.
inline constexpr Element kGssInfo[] = {opaque(), words(2)};
inline constexpr Arm kFlavorInfo[] = {{6, shape(kGssInfo)}};
inline constexpr Element kSecinfo4[] = {union_of(kFlavorInfo)};
inline constexpr Element kSecinfo[] = {array_of(kSecinfo4)};

// Sessions.
inline constexpr Element kBindConn[] = {words(kSessionId + 2)};
inline constexpr Element kProtectOps[] = {bitmap(), bitmap()};
inline constexpr Element kProtectSsv[] = {bitmap(), bitmap(), words(4), array_of(kString)};
inline constexpr Arm kStateProtect[] = {{1, shape(kProtectOps)}, {2, shape(kProtectSsv)}};
inline constexpr Element kImplementation[] = {opaque(), opaque(), words(kTime)};
inline constexpr Element kExchangeId[] = {words(2 + 1 + 1), union_of(kStateProtect),  words(2), opaque(),
                                          opaque(),         array_of(kImplementation)};
inline constexpr Element kCreateSession[] = {words(kSessionId + 2), words(6), bitmap(), words(6), bitmap()};
inline constexpr Element kSequence[] = {words(kSessionId + 5)};
inline constexpr Element kDigest[] = {opaque()};
inline constexpr Element kStatuses[] = {array_of(kWord)};

// pNFS and delegations of directories.
inline constexpr Element kDirDelegation[] = {words(kVerifier + kStateid), bitmap(), bitmap(), bitmap()};
inline constexpr Arm kDirDelegationArms[] = {{0, shape(kDirDelegation)}, {1, shape(kWord)}};
inline constexpr Element kGetDirDelegation[] = {union_of(kDirDelegationArms)};
inline constexpr Element kDeviceInfo[] = {words(1), opaque(), bitmap()};
inline constexpr Element kDevice[] = {words(kDeviceId)};
inline constexpr Element kDeviceList[] = {words(2 + kVerifier), array_of(kDevice), words(1)};
inline constexpr Element kNewSize[] = {words(2)};
inline constexpr Arm kNewSizeArms[] = {{1, shape(kNewSize)}};
inline constexpr Element kLayoutCommit[] = {union_of(kNewSizeArms)};
inline constexpr Element kLayout[] = {words(2 + 2 + 1 + 1), opaque()};
inline constexpr Element kLayoutGet[] = {words(1 + kStateid), array_of(kLayout)};
inline constexpr Arm kLayoutReturnArms[] = {{1, shape(kStateidOnly)}};
inline constexpr Element kLayoutReturn[] = {union_of(kLayoutReturnArms)};

// NFSv4.2. write_response4: callback stateids, count, committed, verifier.
inline constexpr Element kWriteResponse[] = {array_of(kStateidOnly), words(2 + 1 + kVerifier)};
inline constexpr Element kCopy[] = {array_of(kStateidOnly), words(2 + 1 + kVerifier), words(2)};
inline constexpr Element kNetAddress[] = {opaque(), opaque()};
inline constexpr Arm kNetLocation[] = {{1, shape(kString)}, {2, shape(kString)}, {3, shape(kNetAddress)}};
inline constexpr Element kLocation[] = {union_of(kNetLocation)};
inline constexpr Element kCopyNotify[] = {words(kTime + kStateid), array_of(kLocation)};
inline constexpr Element kOffloadStatus[] = {words(2), array_of(kWord)};
inline constexpr Element kContentData[] = {words(2), reducible()};
inline constexpr Element kContentHole[] = {words(4)};
inline constexpr Arm kContents[] = {{0, shape(kContentData)}, {1, shape(kContentHole)}};
inline constexpr Element kContent[] = {union_of(kContents)};
inline constexpr Element kReadPlus[] = {words(1), array_of(kContent)};
inline constexpr Element kSeek[] = {words(3)};
inline constexpr Element kXattrValue[] = {opaque()};
inline constexpr Element kXattrList[] = {words(2), array_of(kString), words(1)};

struct Operation {
  const char* name;
  Shape success;         // what follows NFS4_OK; nothing = void
  bool is_read = false;  // a "READ operation" of RFC 8267: has an eligible result, pairs with one Write chunk
};

// Indexed by operation number less kOperationFirst.
inline constexpr std::array<Operation, kOperationLast - kOperationFirst + 1> kOperations = {{
    {"ACCESS", shape(kAccess)},                        // 3
    {"CLOSE", shape(kStateidOnly)},                    // 4
    {"COMMIT", shape(kVerifierOnly)},                  // 5
    {"CREATE", shape(kCreate)},                        // 6
    {"DELEGPURGE", {}},                                // 7
    {"DELEGRETURN", {}},                               // 8
    {"GETATTR", shape(kAttributes)},                   // 9
    {"GETFH", shape(kString)},                         // 10
    {"LINK", shape(kChangeOnly)},                      // 11
    {"LOCK", shape(kStateidOnly)},                     // 12
    {"LOCKT", {}},                                     // 13
    {"LOCKU", shape(kStateidOnly)},                    // 14
    {"LOOKUP", {}},                                    // 15
    {"LOOKUPP", {}},                                   // 16
    {"NVERIFY", {}},                                   // 17
    {"OPEN", shape(kOpen)},                            // 18
    {"OPENATTR", {}},                                  // 19
    {"OPEN_CONFIRM", shape(kStateidOnly)},             // 20
    {"OPEN_DOWNGRADE", shape(kStateidOnly)},           // 21
    {"PUTFH", {}},                                     // 22
    {"PUTPUBFH", {}},                                  // 23
    {"PUTROOTFH", {}},                                 // 24
    {"READ", shape(kRead), true},                      // 25
    {"READDIR", shape(kReaddir)},                      // 26
    {"READLINK", shape(kReadlink), true},              // 27
    {"REMOVE", shape(kChangeOnly)},                    // 28
    {"RENAME", shape(kRename)},                        // 29
    {"RENEW", {}},                                     // 30
    {"RESTOREFH", {}},                                 // 31
    {"SAVEFH", {}},                                    // 32
    {"SECINFO", shape(kSecinfo)},                      // 33
    {"SETATTR", shape(kBitmapOnly)},                   // 34
    {"SETCLIENTID", shape(kSetclientid)},              // 35
    {"SETCLIENTID_CONFIRM", {}},                       // 36
    {"VERIFY", {}},                                    // 37
    {"WRITE", shape(kWrite)},                          // 38
    {"RELEASE_LOCKOWNER", {}},                         // 39
    {"BACKCHANNEL_CTL", {}},                           // 40
    {"BIND_CONN_TO_SESSION", shape(kBindConn)},        // 41
    {"EXCHANGE_ID", shape(kExchangeId)},               // 42
    {"CREATE_SESSION", shape(kCreateSession)},         // 43
    {"DESTROY_SESSION", {}},                           // 44
    {"FREE_STATEID", {}},                              // 45
    {"GET_DIR_DELEGATION", shape(kGetDirDelegation)},  // 46
    {"GETDEVICEINFO", shape(kDeviceInfo)},             // 47
    {"GETDEVICELIST", shape(kDeviceList)},             // 48
    {"LAYOUTCOMMIT", shape(kLayoutCommit)},            // 49
    {"LAYOUTGET", shape(kLayoutGet)},                  // 50
    {"LAYOUTRETURN", shape(kLayoutReturn)},            // 51
    {"SECINFO_NO_NAME", shape(kSecinfo)},              // 52
    {"SEQUENCE", shape(kSequence)},                    // 53
    {"SET_SSV", shape(kDigest)},                       // 54
    {"TEST_STATEID", shape(kStatuses)},                // 55
    {"WANT_DELEGATION", shape(kDelegationOnly)},       // 56
    {"DESTROY_CLIENTID", {}},                          // 57
    {"RECLAIM_COMPLETE", {}},                          // 58
    {"ALLOCATE", {}},                                  // 59
    {"COPY", shape(kCopy)},                            // 60
    {"COPY_NOTIFY", shape(kCopyNotify)},               // 61
    {"DEALLOCATE", {}},                                // 62
    {"IO_ADVISE", shape(kBitmapOnly)},                 // 63
    {"LAYOUTERROR", {}},                               // 64
    {"LAYOUTSTATS", {}},                               // 65
    {"OFFLOAD_CANCEL", {}},                            // 66
    {"OFFLOAD_STATUS", shape(kOffloadStatus)},         // 67
    {"READ_PLUS", shape(kReadPlus), true},             // 68
    {"SEEK", shape(kSeek)},                            // 69
    {"WRITE_SAME", shape(kWriteResponse)},             // 70
    {"CLONE", {}},                                     // 71
    {"GETXATTR", shape(kXattrValue)},                  // 72
    {"SETXATTR", shape(kChangeOnly)},                  // 73
    {"LISTXATTRS", shape(kXattrList)},                 // 74
    {"REMOVEXATTR", shape(kChangeOnly)},               // 75
}};

constexpr bool every_shape_is_bounded() {
  for (const Operation& operation : kOperations) {
    if (operation.name == nullptr || (operation.success.count > 0 && !is_bounded(operation.success))) {
      return false;
    }
  }
  return true;
}
static_assert(every_shape_is_bounded());

// nullptr for a number that no minor version knows: its result cannot be walked over.
[[nodiscard]] constexpr const Operation* find_operation(uint32_t number) {
  if (number < kOperationFirst || number > kOperationLast) {
    return nullptr;
  }
  return &kOperations[number - kOperationFirst];
}

}  // namespace cw::rpcrdma::nfsv4
