#include "control/recorder/recorder.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "control/recorder/fatal_signals.h"
#include "control/socket/write_whole.h"

namespace cw::control::recorder {
namespace {

constexpr size_t kSignalStackBytes = 64 << 10;

int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string problem_of(const std::string& path) {
  return fmt::format("{}: {}", path, std::strerror(errno));
}

// All of it, or nothing and errno.
std::vector<uint8_t> read_whole(int fd, size_t bytes) {
  std::vector<uint8_t> content(bytes);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd, content.data() + done, bytes - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      errno = got == 0 ? EIO : errno;
      return {};
    }
    done += static_cast<size_t>(got);
  }
  return content;
}

// A whole file or the one that was there before.
bool keep(Bytes content, const std::string& path) {
  const std::string half = path + ".new";
  (void)unlink(half.c_str());
  const UniqueFd file(open(half.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file.valid() && write_whole(file.get(), content) && rename(half.c_str(), path.c_str()) == 0;
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The recording of the process before, where it is worth keeping. Says what became of that.
std::string keep_crashed(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(kRecordingBytes)) {
    return {};
  }
  const std::vector<uint8_t> content = read_whole(fd, kRecordingBytes);
  const std::optional<Recording> recording = Recording::parse(content);
  if (!recording || recording->newest(Area::kHead) == nullptr || !has_crashed(*recording)) {
    return {};
  }
  const std::string what = fmt::format("the process before ({}) {}", head_of(*recording).pid, how_it_ended(*recording));
  return keep(content, crashed_path(path)) ? what + "; causewayctl report has its last words"
                                           : fmt::format("{}; its last words are lost: {}", what, std::strerror(errno));
}

std::string build_id_of(const dl_phdr_info& object) {
  for (size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    const auto* at = reinterpret_cast<const uint8_t*>(object.dlpi_addr + segment.p_vaddr);  // NOLINT: the loader has numbers
    const uint8_t* end = at + segment.p_memsz;
    const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const uint8_t* name = at + sizeof(note);
      const uint8_t* id = name + padded(note.n_namesz);
      at = id + padded(note.n_descsz);
      if (at > end) {
        break;
      }
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        std::string text;
        for (const uint8_t* byte = id; byte < id + note.n_descsz; ++byte) {
          text += fmt::format("{:02x}", *byte);
        }
        return text;
      }
    }
  }
  return {};
}

int add_module(dl_phdr_info* object, size_t, void* text) {
  uint64_t length = 0;
  for (size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    length = segment.p_type == PT_LOAD ? std::max<uint64_t>(length, segment.p_vaddr + segment.p_memsz) : length;
  }
  // The program itself has no name here.
  const std::string_view file = *object->dlpi_name == '\0' ? "causewayd" : object->dlpi_name;
  *static_cast<std::string*>(text) +=
      to_text(Module{object->dlpi_addr, object->dlpi_addr + length, build_id_of(*object), std::string(file)});
  return 0;
}

}  // namespace

std::string recorder_path(const std::string& admin_socket) {
  constexpr std::string_view kSuffix = ".sock";
  return std::string(admin_socket, 0, admin_socket.size() - (admin_socket.ends_with(kSuffix) ? kSuffix.size() : 0)) + ".recorder";
}

std::string crashed_path(const std::string& recorder_path) {
  return recorder_path + ".crashed";
}

RecordingFile read_recording(const std::string& path) {
  // O_NONBLOCK: whatever has this name, nobody waits for it.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return {.recording = {}, .problem = problem_of(path)};
  }
  if (!S_ISREG(info.st_mode) || info.st_size != static_cast<off_t>(kRecordingBytes)) {
    return {.recording = {}, .problem = path + " is not a recording of this version"};
  }
  RecordingFile found;
  struct flock lock = whole_file();
  if (fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
    found.runs = true;
    found.pid = static_cast<uint64_t>(std::max<pid_t>(lock.l_pid, 0));
  }
  const std::vector<uint8_t> content = read_whole(file.get(), kRecordingBytes);
  found.recording = Recording::parse(content);
  found.problem = found.recording ? "" : content.empty() ? problem_of(path) : path + " is not a recording of this version";
  return found;
}

std::unique_ptr<Recorder> Recorder::open(const std::string& path, const Head& head, std::string& before, std::string& problem) {
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    mkdir(path.substr(0, slash).c_str(), 0755);  // as for the admin socket, which comes later; failure shows below
  }
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    problem = problem_of(path);
    return nullptr;
  }
  if (!S_ISREG(info.st_mode)) {
    problem = path + ": something else has this name";
    return nullptr;
  }
  struct flock lock = whole_file();
  if (fcntl(file.get(), F_SETLK, &lock) != 0) {
    problem = path + ": another process records there";
    return nullptr;
  }
  before = keep_crashed(file.get(), path);
  // All its pages now: a write to one that the file system has no room for would end the process.
  if (fchmod(file.get(), 0600) != 0 || ftruncate(file.get(), kRecordingBytes) != 0) {
    problem = problem_of(path);
    return nullptr;
  }
  if (const int error = posix_fallocate(file.get(), 0, kRecordingBytes); error != 0) {
    problem = fmt::format("{}: {}", path, std::strerror(error));
    return nullptr;
  }
  void* memory = mmap(nullptr, kRecordingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) {
    problem = problem_of(path);
    return nullptr;
  }
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(file), {static_cast<uint8_t*>(memory), kRecordingBytes}));
  recorder->put(Area::kHead, to_text(head));
  recorder->put_modules();
  return recorder;
}

Recorder::Recorder(UniqueFd file, std::span<uint8_t> bytes) : file_(std::move(file)), bytes_(bytes), writer_(bytes) {}

Recorder::~Recorder() {
  forget_fatal_signals();
  munmap(bytes_.data(), bytes_.size());
}

void Recorder::add_line(LogLevel level, std::string_view line) {
  put(Area::kLines, line, static_cast<uint32_t>(level));
}

void Recorder::put(Area area, std::string_view text, uint32_t tag) {
  const int64_t now = unix_now_ms();
  const std::lock_guard lock(mutex_);
  writer_.put(area, now, text, tag);
}

void Recorder::put_modules() {
  std::string text;
  dl_iterate_phdr(add_module, &text);
  put(Area::kModules, first_lines(text, Area::kModules));
}

void Recorder::note_fatal_signals() {
  recorder::note_fatal_signals(writer_);
}

SignalStack::SignalStack() : memory_(std::make_unique<uint8_t[]>(kSignalStackBytes)) {
  stack_t stack{};
  stack_t before{};
  stack.ss_sp = memory_.get();
  stack.ss_size = kSignalStackBytes;
  // One that is there, a sanitizer's, stays.
  if (sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0 || sigaltstack(&stack, nullptr) != 0) {
    memory_.reset();
  }
}

SignalStack::~SignalStack() {
  if (memory_ != nullptr) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    (void)sigaltstack(&none, nullptr);
  }
}

}  // namespace cw::control::recorder
