#include "rpcrdma/ulb/arguments.h"

#include "rpcrdma/ulb/nfsv4_arguments.h"
#include "rpcrdma/ulb/xdr_shape.h"

namespace cw::rpcrdma {
namespace {

// RFC 1094: file handles of 32 bytes.
constexpr Element kWrite2[] = {words(8 + 3), reducible()};
constexpr Element kSymlink2[] = {words(8), opaque(), reducible()};

// RFC 1813: a file handle, offset, count, stability, data; directory, name, attributes to set, path.
constexpr Element kWord[] = {words(1)};
constexpr Element kTwoWords[] = {words(2)};
constexpr Arm kSetWord[] = {{1, shape(kWord)}};
constexpr Arm kSetSize[] = {{1, shape(kTwoWords)}};
constexpr Arm kSetTime[] = {{2, shape(kTwoWords)}};
constexpr Element kWrite3[] = {opaque(), words(4), reducible()};
constexpr Element kSymlink3[] = {opaque(),           opaque(),           union_of(kSetWord),
                                 union_of(kSetWord), union_of(kSetWord), union_of(kSetSize),
                                 union_of(kSetTime), union_of(kSetTime), reducible()};

constexpr Element kEcho[] = {reducible()};
constexpr Element kSink[] = {words(1), reducible()};

void find_in_compound_arguments(XdrReader& reader, ReducibleItems& found) {
  (void)reader.skip_opaque(UINT32_MAX);  // tag
  reader.skip(4);                        // minor version
  const uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && reader.ok() && found.count < kReducibleItemsMax; ++i) {
    const uint32_t operation = reader.u32();
    if (!reader.ok() || operation < nfsv4::kOperationFirst || operation > nfsv4::kOperationLast) {
      return;
    }
    walk(reader, nfsv4::arguments::kShapes[operation - nfsv4::kOperationFirst], found);
  }
}

Shape shape_of(const RpcCallHeader& header) {
  if (header.program == kNfsProgram && header.version == kNfs2Version) {
    return header.procedure == kNfs2Write ? shape(kWrite2) : header.procedure == kNfs2Symlink ? shape(kSymlink2) : Shape{};
  }
  if (header.program == kNfsProgram && header.version == kNfs3Version) {
    return header.procedure == kNfs3Write ? shape(kWrite3) : header.procedure == kNfs3Symlink ? shape(kSymlink3) : Shape{};
  }
  if (header.program == kBenchProgram && header.version == kBenchVersion) {
    return header.procedure == static_cast<uint32_t>(BenchProcedure::kEcho)   ? shape(kEcho)
           : header.procedure == static_cast<uint32_t>(BenchProcedure::kSink) ? shape(kSink)
                                                                              : Shape{};
  }
  return {};
}

}  // namespace

void find_eligible_arguments(XdrReader& reader, const RpcCallHeader& header, ReducibleItems& found) {
  if (header.header_bytes == 0 || !is_plain(header)) {
    return;
  }
  reader.skip(header.header_bytes);
  if (header.program == kNfsProgram && header.version == kNfs4Version && header.procedure == kNfs4Compound) {
    find_in_compound_arguments(reader, found);
    return;
  }
  walk(reader, shape_of(header), found);
}

}  // namespace cw::rpcrdma
