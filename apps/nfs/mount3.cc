#include "apps/nfs/mount3.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcrdma/rpc/rpc_message.h"

namespace cw::nfs {
namespace {

constexpr uint32_t kMountProgram = 100005;
constexpr uint32_t kLastFragment = 0x8000'0000;
constexpr uint32_t kReplyBytesMax = 65536;

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) {
      (void)::close(descriptor_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

  [[nodiscard]] bool send_all(Bytes raw) const {
    for (size_t done = 0; done < raw.size();) {
      const ssize_t sent = ::send(descriptor_, raw.data() + done, raw.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      done += static_cast<size_t>(sent);
    }
    return true;
  }
  [[nodiscard]] bool receive_all(MutableBytes raw) const {
    return raw.empty() || ::recv(descriptor_, raw.data(), raw.size(), MSG_WAITALL) == static_cast<ssize_t>(raw.size());
  }

 private:
  int descriptor_;
};

int open_tcp(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0) {
    return -1;
  }
  const int descriptor = ::socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  const timeval patience{10, 0};
  (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const bool connected = ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!connected) {
    (void)::close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

ByteVector mount3(const std::string& address, uint16_t port, const std::string& path, std::string& error) {
  Call call(kMountProgram, 3, 1);
  call.text(path);
  const Bytes stream = call.stream();
  uint8_t mark[4];
  store_be32(mark, kLastFragment | static_cast<uint32_t>(stream.size()));
  const Socket socket(open_tcp(address, port));
  if (socket.get() < 0 || !socket.send_all(mark) || !socket.send_all(stream) || !socket.receive_all(mark)) {
    error = fmt::format("mountd at {} port {} does not answer", address, port);
    return {};
  }
  const uint32_t bytes = load_be32(mark) & ~kLastFragment;
  Reply reply;
  reply.stream.resize(std::min(bytes, kReplyBytesMax));
  if (bytes > kReplyBytesMax || !socket.receive_all(reply.stream)) {
    error = "mountd: a reply that ends early, or has no end";
    return {};
  }
  Results results(reply);
  const auto header = rpcrdma::read_rpc_reply(results.reader());
  const uint32_t status = results.reader().u32();
  if (!header.ok() || !header->success() || !results.reader().ok() || status != 0) {
    error = fmt::format("mountd refuses '{}': status {}", path, status);
    return {};
  }
  return results.opaque();
}

}  // namespace cw::nfs
