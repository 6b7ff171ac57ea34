// What NFSv4 operations are called with, as XDR shapes: RFC 7530/7531 (4.0), RFC 8881/5662 (4.1), RFC 7862/7863 (4.2), RFC 8276
// (extended attributes). Needed to find the arguments that may be reduced (RFC 8267): the data of WRITE and the link text of
// CREATE.
#pragma once

#include <array>
#include <cstdint>

#include "rpcrdma/ulb/nfsv4_results.h"

namespace cw::rpcrdma::nfsv4::arguments {

inline constexpr Element kWords1[] = {words(1)};
inline constexpr Element kWords2[] = {words(2)};
inline constexpr Element kWords3[] = {words(3)};
inline constexpr Element kWords4[] = {words(4)};
inline constexpr Element kWords5[] = {words(5)};
inline constexpr Element kWords6[] = {words(6)};
inline constexpr Element kWords7[] = {words(7)};
inline constexpr Element kWords8[] = {words(8)};
inline constexpr Element kWords10[] = {words(10)};
inline constexpr Element kWords14[] = {words(14)};
inline constexpr Element kTwoStrings[] = {opaque(), opaque()};
inline constexpr Element kBitmap[] = {bitmap()};
inline constexpr Element kFattr[] = {bitmap(), opaque()};
inline constexpr Element kIdAndString[] = {words(2), opaque()};

// CREATE: a link's text, or the numbers of a device.
inline constexpr Element kLinkText[] = {reducible()};
inline constexpr Arm kCreateType[] = {{5, shape(kLinkText)}, {3, shape(kWords2)}, {4, shape(kWords2)}};
inline constexpr Element kCreate[] = {union_of(kCreateType), opaque(), bitmap(), opaque()};

// LOCK: owner of a new lock, or the state of one that is there.
inline constexpr Element kNewLocker[] = {words(1 + kStateid + 1 + 2), opaque()};
inline constexpr Arm kLocker[] = {{1, shape(kNewLocker)}, {0, shape(kWords5)}};
inline constexpr Element kLock[] = {words(6), union_of(kLocker)};
inline constexpr Element kLockTest[] = {words(7), opaque()};

// OPEN: owner, how to create, claim.
inline constexpr Element kExclusive41[] = {words(kVerifier), bitmap(), opaque()};
inline constexpr Arm kCreateHow[] = {{0, shape(kFattr)}, {1, shape(kFattr)}, {2, shape(kWords2)}, {3, shape(kExclusive41)}};
inline constexpr Element kCreateHowOnly[] = {union_of(kCreateHow)};
inline constexpr Arm kOpenFlag[] = {{1, shape(kCreateHowOnly)}};
inline constexpr Element kClaimDelegated[] = {words(kStateid), opaque()};
inline constexpr Arm kClaim[] = {
    {0, shape(kString)}, {1, shape(kWords1)}, {2, shape(kClaimDelegated)}, {3, shape(kString)}, {5, shape(kWords4)}};
inline constexpr Element kOpen[] = {words(5), opaque(), union_of(kOpenFlag), union_of(kClaim)};

inline constexpr Element kReaddir[] = {words(6), bitmap()};
inline constexpr Element kSetattr[] = {words(kStateid), bitmap(), opaque()};
inline constexpr Element kSetclientid[] = {words(kVerifier), opaque(), words(1), opaque(), opaque(), words(1)};
inline constexpr Element kWrite[] = {words(kStateid + 2 + 1), reducible()};

// Sessions. callback_sec_parms4 by flavor.
inline constexpr Element kSysParms[] = {words(1), opaque(), words(2), array_of(kWord)};
inline constexpr Element kGssParms[] = {words(1), opaque(), opaque()};
inline constexpr Arm kSecParms[] = {{1, shape(kSysParms)}, {6, shape(kGssParms)}};
inline constexpr Element kSecParm[] = {union_of(kSecParms)};
inline constexpr Element kBackchannel[] = {words(1), array_of(kSecParm)};
inline constexpr Element kProtectSsv[] = {bitmap(), bitmap(), array_of(kString), array_of(kString), words(2)};
inline constexpr Arm kStateProtect[] = {{1, shape(kProtectOps)}, {2, shape(kProtectSsv)}};
inline constexpr Element kExchangeId[] = {words(kVerifier), opaque(), words(1), union_of(kStateProtect),
                                          array_of(kImplementation)};
inline constexpr Element kCreateSession[] = {words(4), words(6), bitmap(), words(6), bitmap(), words(1), array_of(kSecParm)};
inline constexpr Element kTestStateid[] = {array_of(kStateidOnly)};

// pNFS and delegations of directories.
inline constexpr Element kGetDirDelegation[] = {words(1), bitmap(), words(2 * kTime), bitmap(), bitmap()};
inline constexpr Element kDeviceInfo[] = {words(6), bitmap()};
inline constexpr Arm kNewOffset[] = {{1, shape(kWords2)}};
inline constexpr Arm kNewTime[] = {{1, shape(kWords3)}};
inline constexpr Element kLayoutCommit[] = {words(9), union_of(kNewOffset), union_of(kNewTime), words(1), opaque()};
inline constexpr Element kReturnFile[] = {words(8), opaque()};
inline constexpr Arm kReturn[] = {{1, shape(kReturnFile)}};
inline constexpr Element kLayoutReturn[] = {words(3), union_of(kReturn)};
inline constexpr Arm kWantClaim[] = {{1, shape(kWords1)}};
inline constexpr Element kWantDelegation[] = {words(1), union_of(kWantClaim)};

// NFSv4.2 and extended attributes.
inline constexpr Element kCopy[] = {words(16), array_of(kLocation)};
inline constexpr Element kCopyNotify[] = {words(kStateid), union_of(kNetLocation)};
inline constexpr Element kIoAdvise[] = {words(8), bitmap()};
inline constexpr Element kLayoutError[] = {words(8), array_of(kWords6)};
inline constexpr Element kLayoutStats[] = {words(21), opaque()};
inline constexpr Element kWriteSame[] = {words(16), opaque()};
inline constexpr Element kSetXattr[] = {words(1), opaque(), opaque()};

// Indexed by operation number less kOperationFirst; nothing = void. Names are those of the results' table.
inline constexpr std::array<Shape, kOperationLast - kOperationFirst + 1> kShapes = {{
    shape(kWords1),            // 3 ACCESS
    shape(kWords5),            // 4 CLOSE
    shape(kWords3),            // 5 COMMIT
    shape(kCreate),            // 6 CREATE
    shape(kWords2),            // 7 DELEGPURGE
    shape(kWords4),            // 8 DELEGRETURN
    shape(kBitmap),            // 9 GETATTR
    {},                        // 10 GETFH
    shape(kString),            // 11 LINK
    shape(kLock),              // 12 LOCK
    shape(kLockTest),          // 13 LOCKT
    shape(kWords10),           // 14 LOCKU
    shape(kString),            // 15 LOOKUP
    {},                        // 16 LOOKUPP
    shape(kFattr),             // 17 NVERIFY
    shape(kOpen),              // 18 OPEN
    shape(kWords1),            // 19 OPENATTR
    shape(kWords5),            // 20 OPEN_CONFIRM
    shape(kWords7),            // 21 OPEN_DOWNGRADE
    shape(kString),            // 22 PUTFH
    {},                        // 23 PUTPUBFH
    {},                        // 24 PUTROOTFH
    shape(kWords7),            // 25 READ
    shape(kReaddir),           // 26 READDIR
    {},                        // 27 READLINK
    shape(kString),            // 28 REMOVE
    shape(kTwoStrings),        // 29 RENAME
    shape(kWords2),            // 30 RENEW
    {},                        // 31 RESTOREFH
    {},                        // 32 SAVEFH
    shape(kString),            // 33 SECINFO
    shape(kSetattr),           // 34 SETATTR
    shape(kSetclientid),       // 35 SETCLIENTID
    shape(kWords4),            // 36 SETCLIENTID_CONFIRM
    shape(kFattr),             // 37 VERIFY
    shape(kWrite),             // 38 WRITE
    shape(kIdAndString),       // 39 RELEASE_LOCKOWNER
    shape(kBackchannel),       // 40 BACKCHANNEL_CTL
    shape(kWords6),            // 41 BIND_CONN_TO_SESSION
    shape(kExchangeId),        // 42 EXCHANGE_ID
    shape(kCreateSession),     // 43 CREATE_SESSION
    shape(kWords4),            // 44 DESTROY_SESSION
    shape(kWords4),            // 45 FREE_STATEID
    shape(kGetDirDelegation),  // 46 GET_DIR_DELEGATION
    shape(kDeviceInfo),        // 47 GETDEVICEINFO
    shape(kWords6),            // 48 GETDEVICELIST
    shape(kLayoutCommit),      // 49 LAYOUTCOMMIT
    shape(kWords14),           // 50 LAYOUTGET
    shape(kLayoutReturn),      // 51 LAYOUTRETURN
    shape(kWords1),            // 52 SECINFO_NO_NAME
    shape(kWords8),            // 53 SEQUENCE
    shape(kTwoStrings),        // 54 SET_SSV
    shape(kTestStateid),       // 55 TEST_STATEID
    shape(kWantDelegation),    // 56 WANT_DELEGATION
    shape(kWords2),            // 57 DESTROY_CLIENTID
    shape(kWords1),            // 58 RECLAIM_COMPLETE
    shape(kWords8),            // 59 ALLOCATE
    shape(kCopy),              // 60 COPY
    shape(kCopyNotify),        // 61 COPY_NOTIFY
    shape(kWords8),            // 62 DEALLOCATE
    shape(kIoAdvise),          // 63 IO_ADVISE
    shape(kLayoutError),       // 64 LAYOUTERROR
    shape(kLayoutStats),       // 65 LAYOUTSTATS
    shape(kWords4),            // 66 OFFLOAD_CANCEL
    shape(kWords4),            // 67 OFFLOAD_STATUS
    shape(kWords7),            // 68 READ_PLUS
    shape(kWords7),            // 69 SEEK
    shape(kWriteSame),         // 70 WRITE_SAME
    shape(kWords14),           // 71 CLONE
    shape(kString),            // 72 GETXATTR
    shape(kSetXattr),          // 73 SETXATTR
    shape(kWords3),            // 74 LISTXATTRS
    shape(kString),            // 75 REMOVEXATTR
}};

constexpr bool every_shape_is_bounded() {
  for (const Shape& arguments : kShapes) {
    if (arguments.count > 0 && !is_bounded(arguments)) {
      return false;
    }
  }
  return true;
}
static_assert(every_shape_is_bounded());

}  // namespace cw::rpcrdma::nfsv4::arguments
