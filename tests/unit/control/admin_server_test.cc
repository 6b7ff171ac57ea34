// The admin socket over real UNIX sockets, and causewayctl, the real program, against it.
#include "control/admin/admin_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "control/admin/admin_quota.h"
#include "control/admin/received_file.h"
#include "control/socket/unique_fd.h"
#include "tests/unit/control/fake_view.h"

namespace cw::control {
namespace {

using Json = nlohmann::json;

class AdminServerTest : public testing::Test {
 protected:
  AdminServerTest() {
    char name[] = "/tmp/cw_admin_XXXXXX";
    directory_ = mkdtemp(name);
    path_ = (directory_ / "a.sock").string();
  }
  ~AdminServerTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  void start() {
    std::string problem;
    server_ = AdminServer::start(path_, policy_, {view_, control_}, problem);
    ASSERT_NE(server_, nullptr) << problem;
  }

  [[nodiscard]] UniqueFd connect_client() const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval timeout{.tv_sec = 5, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void put(const UniqueFd& fd, std::string_view text) {
    ASSERT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // One line without its end; what had come before the end of the stream when it ends.
  static std::string line(const UniqueFd& fd) {
    std::string text;
    char c = 0;
    while (recv(fd.get(), &c, 1, 0) == 1 && c != '\n') {
      text += c;
    }
    return text;
  }
  static bool is_closed(const UniqueFd& fd) {
    char c = 0;
    return recv(fd.get(), &c, 1, 0) <= 0;
  }

  struct Run {
    int status = 0;
    std::string output;  // stdout and stderr
  };
  static Run ctl(const std::string& arguments) {
    Run run;
    FILE* pipe = popen((CAUSEWAYCTL " " + arguments + " 2>&1").c_str(), "r");
    std::array<char, 4096> buffer;
    size_t got = 0;
    while ((got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
      run.output.append(buffer.data(), got);
    }
    run.status = WEXITSTATUS(pclose(pipe));
    return run;
  }

  std::filesystem::path directory_;
  std::string path_;
  FakeView view_;
  FakeControl control_;
  AdminPolicy policy_{.own_uid = geteuid(), .admin_uids = {}, .admin_gids = {}, .socket_gid = std::nullopt};
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, AnswersSeveralRequestsInOrder) {
  start();
  const UniqueFd client = connect_client();
  put(client, "status\r\n\nconnections\nnonsense\n");
  EXPECT_EQ(Json::parse(line(client))["instance"], "test");
  EXPECT_EQ(Json::parse(line(client))["connections"].size(), 2u);
  EXPECT_TRUE(Json::parse(line(client)).contains("error"));
}

TEST_F(AdminServerTest, TakesARequestThatEndsWithTheStream) {
  start();
  const UniqueFd client = connect_client();
  put(client, "status");
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(Json::parse(line(client))["instance"], "test");
  EXPECT_TRUE(is_closed(client));
}

TEST_F(AdminServerTest, SocketIsForOwnerAndGroupOnly) {
  start();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(AdminServerTest, LongLineIsRefusedAndClosed) {
  start();
  const UniqueFd client = connect_client();
  put(client, std::string(AdminServer::kRequestBytesMax + 1, 'x'));
  EXPECT_EQ(Json::parse(line(client))["error"], "a request is at most 4096 bytes");
  EXPECT_TRUE(is_closed(client));
}

TEST_F(AdminServerTest, P6_GarbageIsAnsweredAndHarmsNobody) {
  start();
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const UniqueFd client = connect_client();
    std::string noise(random() % 3000, ' ');
    for (char& c : noise) {
      c = static_cast<char>(random());
    }
    send(client.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  }
  const UniqueFd client = connect_client();
  put(client, "status\n");
  EXPECT_EQ(Json::parse(line(client))["instance"], "test");
}

TEST_F(AdminServerTest, P6_SlowReaderStopsItselfAndNobodyElse) {
  view_.connection_count = 5000;  // an answer far beyond what the socket buffers hold
  start();
  const UniqueFd slow = connect_client();
  put(slow, "connections\nconnections\nconnections\n");
  const UniqueFd other = connect_client();
  put(other, "status\n");
  EXPECT_EQ(Json::parse(line(other))["instance"], "test");
  EXPECT_EQ(view_.calls, 2);  // the second answer is not made before the first is taken
  EXPECT_EQ(Json::parse(line(slow))["connections"].size(), 5000u);
}

TEST_F(AdminServerTest, ClientsBeyondTheBoundAreTold) {
  start();
  const uint32_t places = geteuid() == 0 ? AdminQuota::kMax : AdminQuota::kPerUserMax;
  std::vector<UniqueFd> clients;
  for (uint32_t i = 0; i < places; ++i) {
    clients.push_back(connect_client());
    put(clients.back(), "help\n");
    EXPECT_NE(line(clients.back()), "");
  }
  const UniqueFd late = connect_client();
  EXPECT_EQ(Json::parse(line(late))["error"], "too many clients on the admin socket; try again");
  EXPECT_TRUE(is_closed(late));
  clients.pop_back();
  put(clients.front(), "help\n");  // when this is answered, the server has seen the one that left
  EXPECT_NE(line(clients.front()), "");
  const UniqueFd next = connect_client();
  put(next, "status\n");
  EXPECT_EQ(Json::parse(line(next))["instance"], "test");
}

// Connects as another user, which the kernel lets a single thread of root's be.
TEST_F(AdminServerTest, ReadersWhoStayLeaveAPlaceToRoot) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "takes root";
  }
  start();
  std::filesystem::permissions(directory_, std::filesystem::perms::all);
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  std::vector<UniqueFd> readers;
  std::thread([&] {
    for (uint32_t uid = 60'001; uid < 60'011; ++uid) {
      ASSERT_EQ(syscall(SYS_setresuid, -1, uid, 0), 0);
      for (int i = 0; i < 5; ++i) {
        readers.push_back(connect_client());
      }
      ASSERT_EQ(syscall(SYS_setresuid, -1, 0, 0), 0);
    }
  }).join();
  const UniqueFd root = connect_client();
  put(root, "status\n");
  EXPECT_EQ(Json::parse(line(root))["instance"], "test");
  uint32_t refused = 0;
  for (const UniqueFd& reader : readers) {
    pollfd polled{reader.get(), POLLIN, 0};
    refused += poll(&polled, 1, 0) == 1 ? 1 : 0;
  }
  EXPECT_EQ(readers.size() - refused, AdminQuota::kReadersMax);
}

TEST_F(AdminServerTest, OneWhoStaysSilentOrTricklesALineGivesItsPlaceBack) {
  std::string problem;
  server_ = AdminServer::start(path_, policy_, {view_, control_}, problem, Duration::ms(300));
  ASSERT_NE(server_, nullptr) << problem;
  const UniqueFd silent = connect_client();
  const UniqueFd trickles = connect_client();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (send(trickles.get(), "s", 1, MSG_NOSIGNAL) == 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(std::chrono::steady_clock::now(), give_up);
  EXPECT_TRUE(is_closed(silent));
}

TEST_F(AdminServerTest, TheFileThatComesWithARequestIsItsAlone) {
  start();
  const UniqueFd client = connect_client();
  const std::string file = (directory_ / "out").string();
  const UniqueFd out(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string request = R"({"command":"capture_start","file":"out"})"
                              "\n";
  const Bytes bytes(reinterpret_cast<const uint8_t*>(request.data()), request.size());
  ASSERT_EQ(send_with_file(client.get(), bytes, out.get()), static_cast<ssize_t>(request.size()));
  EXPECT_NE(line(client), "");
  EXPECT_TRUE(control_.captured_output);
  put(client, request);
  EXPECT_NE(line(client), "");
  EXPECT_FALSE(control_.captured_output);
}

TEST_F(AdminServerTest, ReplacesAFileThatNobodyListensOn) {
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  start();
  const UniqueFd client = connect_client();
  put(client, "status\n");
  EXPECT_NE(line(client), "");
}

TEST_F(AdminServerTest, RefusesToTakeOverALivingSocketOrAFile) {
  start();
  std::string problem;
  EXPECT_EQ(AdminServer::start(path_, policy_, {view_, control_}, problem), nullptr);
  EXPECT_EQ(problem, "admin socket " + path_ + ": another causewayd is running; give each its own gateway.instance");
  const std::string file = (directory_ / "file").string();
  std::ofstream(file) << "precious";
  EXPECT_EQ(AdminServer::start(file, policy_, {view_, control_}, problem), nullptr);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(AdminServer::start("/nonexistent/a/b.sock", policy_, {view_, control_}, problem), nullptr);
  EXPECT_EQ(problem, "admin socket /nonexistent/a/b.sock: cannot be created: No such file or directory");
}

TEST_F(AdminServerTest, MakesTheDirectoryAndRemovesTheSocketAtItsEnd) {
  path_ = (directory_ / "run" / "b.sock").string();
  start();
  EXPECT_TRUE(std::filesystem::exists(path_));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(AdminServerTest, CtlShowsStatusAsTables) {
  start();
  const Run run = ctl("--wide --socket " + path_ + " status");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.output,
            "Causeway 9.8.7, instance test: ready, up 1d 02:03:04, 2 connections\n"
            "\n"
            "Ports\n"
            "  DEVICE    LINK  Mbit/s   MTU  PATH MTU  QUEUES  STEERING  MAC                ADDRESSES\n"
            "  net_tap0  up     10000  1500      1024       1  none      02:00:00:00:00:01  192.0.2.1/24 2001:db8::1/64\n"
            "\n"
            "RDMA ports\n"
            "  DEVICE  PORT  STATE\n"
            "  rxe0       1  ACTIVE\n"
            "\n"
            "Listeners\n"
            "  NAME   PORT  WIRE        BACKEND  CREDITS  INLINE  CONNECTIONS  MAX  MAX/s  MAX B/s  WAITED  "
            "CALLS  REPLIES  ERRORS   IN  OUT\n"
            "  nfs   20049  verbs rxe0  nfs           64    4096            2   64      -        -       0  "
            "    0        0       0  0 B  0 B\n"
            "\n"
            "Backends\n"
            "  NAME  TYPE  ADDRESS         STATE  CALLS  RECONNECTS  TIMEOUTS\n"
            "  nfs   tcp   127.0.0.1:2049  up         3           1         0\n"
            "  old   tcp   127.0.0.2:2049  down       0           0         0\n"
            "  new   tcp   127.0.0.3:2049  -          0           0         0\n"
            "\n"
            "Servers\n"
            "  BACKEND  ADDRESS         ROLE     STATE      NEXT  CONNECTIONS  CALLS  CHECKS  FAILED    TOOK     AGO  ERROR\n"
            "  nfs      127.0.0.1:2049  primary  up         yes             2      3      40       1  300 us   1.5 s  -\n"
            "  nfs      127.0.0.4:2049  backup   down       -               0      0      40      40   70 us  800 ms  Connection "
            "refused\n"
            "  new      127.0.0.3:2049  primary  unchecked  yes             0      0       0       0       -       -  -\n"
            "\n"
            "Routes\n"
            "  LISTENER  PROGRAM  NAME    BACKEND             CALLS\n"
            "  nfs        100005  mountd  old                    12\n"
            "  nfs        200001  -       new                     0\n"
            "  nfs         other  -       none: PROG_UNAVAIL      3\n"
            "\n"
            "Clients\n"
            "  NAME     ALLOW  CONNECTIONS  MAX  CREDITS  GRANTED  IN USE  IN FLIGHT       MAX  "
            "MAX/s  MAX B/s  WEIGHT  WAITED  DENIED  FULL  "
            "CALLS  REPLIES  ERRORS       IN      OUT  PREFIXES\n"
            "  cluster  yes              2    4       32       64      17    1.0 MiB  64.0 MiB  "
            " 5000        -       4       5       0     7   "
            "1000      999       2  4.0 KiB  3.0 MiB  "
            "192.0.2.0/25 2001:db8::/64\n"
            "  others   no               0    -        -        0       0        0 B         -  "
            "    -        -       1       0       9     0      "
            "0        0       0      0 B      0 B  0.0.0.0/0\n");
}

TEST_F(AdminServerTest, CtlShowsConnections) {
  view_.error = {.cause = "retry exceeded \x1b[2J"};
  start();
  const Run run = ctl("connections --wide --socket " + path_);
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("192.0.2.9:41000"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("[2001:db8::9]:41000"), std::string::npos);
  EXPECT_NE(run.output.find("0x000abc"), std::string::npos);
  EXPECT_NE(run.output.find("1.5 KiB"), std::string::npos);
  EXPECT_NE(run.output.find("5.0 GiB"), std::string::npos);
  EXPECT_NE(run.output.find("00:01:01"), std::string::npos);
  EXPECT_EQ(run.output.find('\x1b'), std::string::npos);
}

TEST_F(AdminServerTest, CtlMakesTheFileOfACaptureAndOverwritesNothing) {
  start();
  const std::string file = (directory_ / "x.pcapng").string();
  const Run made = ctl("--socket " + path_ + " capture start " + file);
  EXPECT_EQ(made.status, 0) << made.output;
  server_.reset();  // what its thread wrote is read below
  EXPECT_TRUE(control_.captured_output);
  EXPECT_EQ(control_.order.file, file);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  control_.captured_output = false;
  start();
  const Run again = ctl("--socket " + path_ + " capture start " + file);
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.output.find(file + " exists, and is not overwritten"), std::string::npos) << again.output;
  const std::string link = (directory_ / "link").string();
  std::filesystem::create_symlink(directory_ / "victim", link);
  EXPECT_EQ(ctl("--socket " + path_ + " capture start " + link).status, 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "victim"));
  server_.reset();
  EXPECT_FALSE(control_.captured_output);
}

TEST_F(AdminServerTest, CtlRemovesTheFileOfACaptureThatIsRefused) {
  start();
  const std::string file = (directory_ / "y.pcapng").string();
  EXPECT_EQ(ctl("--socket " + path_ + " capture start " + file + " snaplen 1").status, 1);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(AdminServerTest, CtlShowsStatsAndJson) {
  start();
  const Run stats = ctl("--socket " + path_ + " stats causeway_roce");
  EXPECT_EQ(stats.output, "causeway_roce_packets_total{port=\"0\",direction=\"rx\"}  12345678901\n");
  const Run none = ctl("--socket " + path_ + " stats nothing");
  EXPECT_EQ(none.output, "no such statistics\n");
  const Run json = ctl("--socket " + path_ + " --json connections");
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(Json::parse(json.output)["connections"][0]["rpcs"], 77);
}

TEST_F(AdminServerTest, CtlSaysWhatToDoWithoutAGateway) {
  const Run missing = ctl("--socket " + path_ + " status");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.output,
            "causewayctl: " + path_ +
                ": no such socket. Is causewayd running? Another instance is chosen by --instance, another path by --socket\n");
  start();
  const std::string copy = (directory_ / "dead.sock").string();
  std::filesystem::create_hard_link(path_, copy);
  server_.reset();
  const Run dead = ctl("--socket " + copy + " status");
  EXPECT_EQ(dead.status, 1);
  EXPECT_NE(dead.output.find("nobody listens. Is causewayd running?"), std::string::npos) << dead.output;
}

TEST_F(AdminServerTest, CtlHelpAndUsage) {
  const Run help = ctl("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"status", "connections", "stats", "--json", "--socket", "--instance"}) {
    EXPECT_NE(help.output.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(ctl("").status, 2);
  EXPECT_EQ(ctl("frobnicate").status, 2);
  EXPECT_EQ(ctl("status extra").status, 2);
  EXPECT_EQ(ctl("--socket a --instance b status").status, 2);
  EXPECT_EQ(ctl("--instance nowhere status").status, 1);
}

}  // namespace
}  // namespace cw::control
