// Each kind of mistake in a configuration, with the exact sentence that the operator reads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/config/build_features.h"
#include "control/config/config_check.h"
#include "control/config/config_parse.h"

namespace cw::control {
namespace {

std::vector<std::string> problems_of(const std::string& text) {
  const ParsedConfig parsed = config_parse(text, "c.toml");
  std::vector<std::string> lines;
  for (const Problem& problem : parsed.problems) {
    lines.push_back(to_string(problem));
  }
  for (const Problem& problem : config_check(parsed)) {
    lines.push_back(to_string(problem));
  }
  return lines;
}

// A complete configuration on 13 lines; what a test adds starts on line 14.
const std::string kGood = R"([[port]]
device = "net_tap0,iface=cw0"
mtu = 1500
addresses = ["192.0.2.1/24"]

[[listener]]
backend = "nfs"

[[backend]]
name = "nfs"
type = "tcp"
address = "127.0.0.1:2049"

)";

struct Case {
  const char* name;
  const char* added;  // behind kGood
  std::vector<std::string> problems;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class ConfigProblems : public testing::TestWithParam<Case> {};

TEST_P(ConfigProblems, AreSaidWithPlaceAndNextStep) {
  if (!kHasXdpProgram && std::string(GetParam().added).find("beside_kernel") != std::string::npos) {
    GTEST_SKIP() << "a build without XDP program refuses the key itself";
  }
  EXPECT_EQ(problems_of(kGood + GetParam().added), GetParam().problems);
}

const std::vector<Case> kParseCases = {
    {"None", "", {}},
    {"UnknownKeyNear",
     "[limits]\nconections_max = 5\n",
     {"c.toml:15:1: limits.conections_max: unknown key; did you mean 'connections_max'?"}},
    {"SwappedLetters", "[log]\nlevle = \"info\"\n", {"c.toml:15:1: log.levle: unknown key; did you mean 'level'?"}},
    {"UnknownKeyFar",
     "[metrics]\npassword = \"x\"\n",
     {"c.toml:15:1: metrics.password: unknown key; there are listen, web_config, page, addresses_max, dpdk_telemetry"}},
    {"UnknownSection", "[limit]\n", {"c.toml:14:2: limit: unknown section; did you mean 'limits'?"}},
    {"KeyOutsideSections",
     "[log]\n[nonsense]\nx = 1\n",
     {"c.toml:15:2: nonsense: unknown section; there are gateway, dataplane, port, listener, backend, route, client, limits, "
      "roce, iwarp, metrics, admin, log"}},
    {"NumberAsText",
     "[limits]\nconnections_max = \"64\"\n",
     {"c.toml:15:19: limits.connections_max: is text, not a whole number"}},
    {"NumberWithFraction",
     "[dataplane]\nworkers = 1.5\n",
     {"c.toml:15:11: dataplane.workers: is a number with a fraction, not a whole number"}},
    {"TooLarge", "[roce]\nretry_count = 8\n", {"c.toml:15:15: roce.retry_count: 8 is out of range; use 0 to 7"}},
    {"Negative", "[roce]\nretry_count = -1\n", {"c.toml:15:15: roce.retry_count: -1 is out of range; use 0 to 7"}},
    {"Huge",
     "[limits]\ncall_bytes_max = 9223372036854775807\n",
     {"c.toml:15:18: limits.call_bytes_max: 9223372036854775807 is out of range; use 65536 to 67108864"}},
    {"FlagAsNumber", "[dataplane]\nhugepages = 1\n", {"c.toml:15:13: dataplane.hugepages: is a whole number, not true or false"}},
    {"WrongChoice",
     "[dataplane]\nidle = \"nap\"\n",
     {"c.toml:15:8: dataplane.idle: 'nap' is not one of the choices; use sleep, spin"}},
    {"WrongNumberChoice",
     "[roce]\npath_mtu_max = 1500\n",
     {"c.toml:15:16: roce.path_mtu_max: '1500' is not one of the choices; use 256, 512, 1024, 2048, 4096"}},
    {"ListForAChoice",
     "[log]\nlevel = [\"info\"]\n",
     {"c.toml:15:9: log.level: a list is not one of the choices; use trace, debug, info, warning, error"}},
    {"NoList", "[dataplane]\npoll_lcores = 1\n", {"c.toml:15:15: dataplane.poll_lcores: is a whole number, not a list in [ ]"}},
    {"BadItem",
     "[dataplane]\npoll_lcores = [1, 4096]\n",
     {"c.toml:15:19: dataplane.poll_lcores: 4096 is out of range; use 0 to 1023"}},
    {"BadListen",
     "[metrics]\nlisten = \"localhost:9464\"\n",
     {"c.toml:15:10: metrics.listen: 'localhost:9464' is not an IP address and port; write \"127.0.0.1:2049\" or \"[::1]:2049\"; "
      "names are "
      "not resolved"}},
    {"BadName",
     "[gateway]\ninstance = \"../etc\"\n",
     {"c.toml:15:12: gateway.instance: '../etc' is not a name: 1 to 32 characters of a-z, 0-9, '-', '_'"}},
    {"BadPath",
     "[admin]\nsocket = \"run.sock\"\n",
     {"c.toml:15:10: admin.socket: 'run.sock' is not an absolute path of at most 107 characters"}},
    {"SectionTwice", "[[limits]]\n", {"c.toml:14:1: limits: is not a section that stands once; write [limits]"}},
    {"InlineNotKiB",
     "[[listener]]\nport = 2050\nname = \"b\"\nbackend = \"nfs\"\ninline_bytes = 5000\n",
     {"c.toml:18:16: listener.inline_bytes: 5000 is not a multiple of 1024; use 4096 or 5120"}},
    {"Missing",
     "[[listener]]\nport = 2050\nname = \"b\"\n",
     {"c.toml:14:1: listener.backend: is missing; add for example backend = \"nfs\", or a name, and a [[route]] for each "
      "program with that listener"}},
    {"AllAtOnce",
     "[limits]\nhalf_open = 1\nconnections_max = 0\n[log]\nlevel = 3\n",
     {"c.toml:15:1: limits.half_open: unknown key; there are read_segments_max, write_chunks_max, plain_segments_max, "
      "call_bytes_max, "
      "reply_bytes_max, read_timeout_s, reply_timeout_s, calls_in_flight_max, connections_max, half_open_max, "
      "cm_requests_per_second, "
      "half_open_max_per_prefix, cm_requests_per_second_per_prefix, prefix_bits_ipv4, prefix_bits_ipv6",
      "c.toml:16:19: limits.connections_max: 0 is out of range; use 1 to 131072",
      "c.toml:18:9: log.level: '3' is not one of the choices; use trace, debug, info, warning, error"}},
};
INSTANTIATE_TEST_SUITE_P(Parse, ConfigProblems, testing::ValuesIn(kParseCases), [](const auto& test) { return test.param.name; });

const std::vector<Case> kCheckCases = {
    {"QueuePairNumbers",
     "[dataplane]\npoll_lcores = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n[limits]\nconnections_max = 131072\n",
     {"c.toml:17:19: limits.connections_max: 131072 and half_open_max, 512, are too many for the queue pair numbers of 9 poll "
      "cores; set it to 130560 or less, or use fewer poll cores",
      "c.toml:14:1: dataplane.rx_buffers: 32768 cannot back the credits of 131072 connections, which reserve 41943040 buffers at "
      "path MTU 1024; set it to 41943040 or more, or lower limits.connections_max or the listeners' credits"}},
    {"LcoreTwice",
     "[dataplane]\npoll_lcores = [1, 1]\n",
     {"c.toml:15:15: dataplane.poll_lcores: CPU 1 stands twice; name each CPU once"}},
    {"WorkerLcoreTwice",
     "[dataplane]\nworker_lcores = [1, 1]\n",
     {"c.toml:15:17: dataplane.worker_lcores: CPU 1 stands twice; name each CPU once"}},
    {"WorkerBesideACoreThatSpins",
     "[dataplane]\npoll_lcores = [1, 2]\nworker_lcores = [2, 3]\nidle = \"spin\"\n",
     {"c.toml:16:17: warning: dataplane.worker_lcores: CPU 2 is also that of a poll core: workers there run while it has nothing "
      "to do; take another CPU where there are more than two; else this is as it should be"}},
    {"IwarpLcoreTwice",
     "[iwarp]\npoll_lcores = [0, 2, 2]\n",
     {"c.toml:15:15: iwarp.poll_lcores: CPU 2 stands twice; name each CPU once",
      "c.toml:15:15: iwarp.poll_lcores: CPU 0 is also in dataplane.poll_lcores; name it in one of the two; where iWARP may share "
      "the poll cores, leave iwarp.poll_lcores out",
      "c.toml:15:15: warning: iwarp.poll_lcores: serve nobody: no listener has transport = \"iwarp\"; remove it, or add such a "
      "listener"}},
    {"NoLcore",
     "[dataplane]\npoll_lcores = []\n",
     {"c.toml:15:15: dataplane.poll_lcores: is empty; name at least one CPU, for example poll_lcores = [1]"}},
    {"UnknownBackend",
     "[[listener]]\nname = \"b\"\nport = 1\nbackend = \"nsf\"\n",
     {"c.toml:17:11: listener.backend: there is no backend 'nsf'; did you mean 'nfs'?"}},
    {"SamePort",
     "[[listener]]\nname = \"b\"\nbackend = \"nfs\"\n",
     {"c.toml:14:1: listener.port: two listeners have port 20049; give each its own port"}},
    {"SameListenerName",
     "[[listener]]\nport = 1\nbackend = \"nfs\"\n",
     {"c.toml:14:1: listener.name: two listeners are named 'nfs'; give each its own name"}},
    {"SameBackendName",
     "[[backend]]\nname = \"nfs\"\naddress = \"127.0.0.1:1\"\n",
     {"c.toml:15:8: backend.name: two backends are named 'nfs'; give each its own name"}},
    {"TcpWithoutAddress",
     "[[backend]]\nname = \"b\"\n",
     {"c.toml:14:1: backend.address: is missing; add for example address = \"127.0.0.1:2049\"",
      "c.toml:14:1: warning: backend: no listener uses 'b'; add a [[listener]] for it, or remove it"}},
    {"BuiltinWithAddress",
     "[[backend]]\nname = \"b\"\ntype = \"builtin\"\naddress = \"127.0.0.1:1\"\n[[listener]]\nport = 1\nbackend = \"b\"\n",
     {"c.toml:17:11: backend.address: belongs to backends of type \"tcp\"; remove it, or set type = \"tcp\"",
      "c.toml:14:1: backend.programs: is missing; add programs = [\"bench\"]"}},
    {"BuiltinWithBackups",
     "[[backend]]\nname = \"b\"\ntype = \"builtin\"\nprograms = [\"bench\"]\nbackups = [\"127.0.0.1:1\"]\n"
     "[[listener]]\nport = 1\nbackend = \"b\"\n",
     {"c.toml:18:11: backend.backups: belongs to backends of type \"tcp\"; remove it, or set type = \"tcp\""}},
    {"BackupTwiceAndUnchecked",
     "[[backend]]\nname = \"b\"\naddress = \"127.0.0.1:1\"\nbackups = [\"127.0.0.1:2\", \"127.0.0.1:1\"]\ncheck = \"off\"\n"
     "[[listener]]\nport = 1\nbackend = \"b\"\n",
     {"c.toml:17:11: backend.backups: 127.0.0.1:1 stands twice; name each server once",
      "c.toml:17:11: backend.backups: is never used: without checks no server is known to be down; "
      "set check = \"rpc\" or \"tcp\", or remove it"}},
    {"RoutesToNothing",
     "[[route]]\nlistener = \"nsf\"\nprogram = 7\nbackend = \"bench\"\n",
     {"c.toml:17:11: route.backend: there is no backend 'bench'; there are nfs",
      "c.toml:15:12: route.listener: there is no listener 'nsf'; did you mean 'nfs'?"}},
    {"ProgramRoutedTwice",
     "[[route]]\nlistener = \"nfs\"\nprogram = 7\nbackend = \"nfs\"\n[[route]]\nlistener = \"nfs\"\nprogram = 7\nbackend = "
     "\"nfs\"\n",
     {"c.toml:20:11: route.program: listener 'nfs' has two routes for program 7; route each program once"}},
    {"ARouteIsEnoughForAListenerAndABackend",
     "[[backend]]\nname = \"b\"\naddress = \"127.0.0.1:1\"\n[[listener]]\nname = \"l\"\nport = 1\n"
     "[[route]]\nlistener = \"l\"\nprogram = 7\nbackend = \"b\"\n",
     {}},
    {"ListenerWithoutBackendOrRoute",
     "[[listener]]\nname = \"l\"\nport = 1\n",
     {"c.toml:14:1: listener.backend: is missing; add for example backend = \"nfs\", or a name, and a [[route]] for each program "
      "with that listener"}},
    {"ClientsThatMeetOrMeanNothing",
     "[[client]]\nname = \"a\"\nprefixes = [\"10.0.0.0/8\"]\nconnections_max = 100\n"
     "[[client]]\nname = \"a\"\nprefixes = [\"10.1.0.0/8\"]\nallow = false\ncredits = 4\n",
     {"c.toml:17:19: client.connections_max: 100 is more than limits.connections_max, 64; lower it, or raise "
      "limits.connections_max",
      "c.toml:19:8: client.name: two client sections are named 'a'; give each its own name",
      "c.toml:20:12: client.prefixes: 10.1.0.0/8 stands in client 'a' already; give each network to one section",
      "c.toml:21:9: warning: client.allow: is false: the section's limits mean nothing; remove them, or set allow = true"}},
    {"AWeightWithoutARateToShare",
     "[[client]]\nname = \"a\"\nprefixes = [\"10.0.0.0/8\"]\nweight = 2\n",
     {"c.toml:17:10: warning: client.weight: means nothing: no listener has calls_per_second or bytes_per_second; "
      "give a listener one of them, or remove the weight"}},
    {"ClientWithoutPrefixes",
     "[[client]]\nname = \"a\"\nprefixes = []\n",
     {"c.toml:16:12: client.prefixes: is empty; name at least one, for example prefixes = [\"192.0.2.0/24\"]"}},
    {"UnknownProgram",
     "[[backend]]\nname = \"b\"\ntype = \"builtin\"\nprograms = [\"bensch\"]\n[[listener]]\nport = 1\nbackend = \"b\"\n",
     {"c.toml:17:12: backend.programs: there is no built-in program 'bensch'; there are bench"}},
    {"DeviceTwice",
     "[[port]]\ndevice = \"net_tap0,iface=cw0\"\naddresses = [\"198.51.100.1/24\"]\n",
     {"c.toml:15:10: port.device: 'net_tap0,iface=cw0' is another port's device too; name each device once"}},
    {"MemifZeroCopy",
     "[[port]]\ndevice = \"net_memif0,role=client,zero-copy=yes\"\naddresses = [\"198.51.100.1/24\"]\n",
     {"c.toml:15:10: port.device: zero-copy=yes lets the other end of a memif link write to all of the gateway's memory; remove "
      "zero-copy"}},
    {"AddressTwice",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"192.0.2.1/24\"]\n",
     {"c.toml:16:13: port.addresses: 192.0.2.1 stands twice; give each address to one port"}},
    {"AddressKinds",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"127.0.0.1/8\", \"ff02::1/128\", \"0.0.0.0/0\"]\n",
     {"c.toml:16:13: port.addresses: 127.0.0.1 cannot be a port's own address; use a unicast address of the port's network",
      "c.toml:16:13: port.addresses: ff02::1 cannot be a port's own address; use a unicast address of the port's network",
      "c.toml:16:13: port.addresses: 0.0.0.0 cannot be a port's own address; use a unicast address of the port's network"}},
    {"NoAddresses",
     "[[port]]\ndevice = \"net_tap1\"\n",
     {"c.toml:14:1: port.addresses: is missing; give the port at least one address, for example addresses = [\"192.0.2.1/24\"]"}},
    {"BesideTheKernel", "[[port]]\ndevice = \"net_af_xdp0,iface=eth0\"\nmtu = 2200\nbeside_kernel = true\n", {}},
    {"BesideTheKernelWithoutInterface",
     "[[port]]\ndevice = \"net_af_packet0,iface=eth0\"\nbeside_kernel = true\n",
     {"c.toml:16:17: port.beside_kernel: the kernel cannot keep an interface beside 'net_af_packet0,iface=eth0'; use device = "
      "\"net_af_xdp0,iface=eth0\", or the PCI address of a NIC that keeps its kernel driver (mlx5); a device that DPDK has whole "
      "gets an exception_tap instead"}},
    {"BesideTheKernelByRules",
     "[[port]]\ndevice = \"0000:3b:00.0\"\nmtu = 4200\nbeside_kernel = true\n"
     "[[port]]\ndevice = \"net_tap0,iface=cwt,remote=eth1\"\nbeside_kernel = true\n",
     {}},
    {"BesideTheKernelByATapOfItsOwn",
     "[[port]]\ndevice = \"net_tap0,iface=cwt\"\nbeside_kernel = true\n",
     {"c.toml:16:17: port.beside_kernel: the kernel cannot keep an interface beside 'net_tap0,iface=cwt'; use device = "
      "\"net_af_xdp0,iface=eth0\", or the PCI address of a NIC that keeps its kernel driver (mlx5); a device that DPDK has whole "
      "gets an exception_tap instead"}},
    {"AnotherXdpProgram",
     "[[port]]\ndevice = \"net_af_xdp0,iface=eth0,xdp_prog=/x.o\"\nbeside_kernel = true\n",
     {"c.toml:15:10: port.device: xdp_prog= names another program than the gateway's own; remove it, or beside_kernel"}},
    {"AfXdpMtu",
     "[[port]]\ndevice = \"net_af_xdp0,iface=eth0\"\nmtu = 4200\naddresses = [\"198.51.100.1/24\"]\n",
     {"c.toml:16:7: port.mtu: 4200 is too long for AF_XDP, whose buffers are a page each, and all ports have the same buffers; "
      "set it "
      "to 3400 or less; from 2132 on, RoCE packets carry 2048 bytes"}},
    {"ExceptionTapName",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.1/24\"]\nexception_tap = \"sixteen-letters-\"\n",
     {"c.toml:17:17: port.exception_tap: 'sixteen-letters-' is too long for the name of an interface; use at most 15 "
      "characters"}},
    {"ExceptionTapBesideTheKernel",
     "[[port]]\ndevice = \"net_af_xdp0,iface=eth0\"\nbeside_kernel = true\nexception_tap = \"cw0\"\n",
     {"c.toml:17:17: port.exception_tap: does not go with beside_kernel: there the kernel has the interface itself; remove one "
      "of "
      "them"}},
    {"NoPrefixLength",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.1\"]\n",
     {"c.toml:16:14: port.addresses: '198.51.100.1' has no prefix length; write \"198.51.100.1/24\" or what the network's is"}},
    {"BackupIsNoAddress",
     "[[backend]]\nname = \"b\"\naddress = \"127.0.0.1:1\"\nbackups = [\"nfs2:2049\"]\n[[listener]]\nport = 1\nbackend = \"b\"\n",
     {"c.toml:17:12: backend.backups: 'nfs2:2049' is not an IP address and port; "
      "write \"127.0.0.1:2049\" or \"[::1]:2049\"; names are not resolved"}},
    {"BadAddress",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100/24\"]\n",
     {"c.toml:16:14: port.addresses: '198.51.100/24' is not an IP address with prefix length; for example addresses = "
      "[\"192.0.2.1/24\", "
      "\"2001:db8::1/64\"]"}},
    {"GatewayFamily",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.1/24\"]\ngateway4 = \"fe80::1\"\n",
     {"c.toml:17:12: port.gateway4: fe80::1 is not an IPv4 address; use gateway6"}},
    {"GatewayOutside",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.1/24\"]\ngateway4 = \"10.0.0.1\"\ngateway6 = \"fe80::1\"\n",
     {"c.toml:17:12: port.gateway4: 10.0.0.1 is in none of the port's networks; use a next hop inside one of the port's "
      "addresses' prefixes"}},
    {"GatewayIsSelf",
     "[[port]]\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.1/24\"]\ngateway4 = \"198.51.100.1\"\n",
     {"c.toml:17:12: port.gateway4: 198.51.100.1 is the port's own address; use the router's address"}},
    {"PathMtuOfNoPort",
     "[roce]\npath_mtu_max = 4096\n",
     {"c.toml:15:16: warning: roce.path_mtu_max: 4096 fits no port: the largest that does is 1024; raise the port's mtu to 4180 "
      "or more"}},
    {"TooFewBuffers",
     "[limits]\nconnections_max = 200\n",
     {"c.toml: dataplane.rx_buffers: 32768 cannot back the credits of 200 connections, which reserve 64000 buffers at path MTU "
      "1024; set it "
      "to 64000 or more, or lower limits.connections_max or the listeners' credits"}},
    {"CreditsBeyondCalls",
     "[limits]\ncalls_in_flight_max = 63\n",
     {"c.toml:6:1: listener.credits: 64 is more than limits.calls_in_flight_max, 63; lower it, or raise "
      "limits.calls_in_flight_max"}},
    {"ListenerBeyondGlobal",
     "[[listener]]\nname = \"b\"\nport = 1\nbackend = \"nfs\"\nconnections_max = 65\n",
     {"c.toml:18:19: listener.connections_max: 65 is more than limits.connections_max, 64; lower it, or raise "
      "limits.connections_max"}},
    {"AllowNobody",
     "[[listener]]\nname = \"b\"\nport = 1\nbackend = \"nfs\"\nallow = [\"2001:db8::/32\"]\n",
     {"c.toml:18:9: warning: listener.allow: 2001:db8::/32 matches nobody: no port has an IPv6 address; give a port an IPv6 "
      "address, or "
      "remove the entry"}},
    {"MemoryTooSmall",
     "[dataplane]\nmemory_mb = 64\nrx_buffers = 65536\n",
     {"c.toml:15:13: dataplane.memory_mb: 64 does not hold the buffers, which take 330 MiB: 67200 of 2176 bytes for packets, "
      "314 of 32768 for replies of backends; set it to 370 or more, or lower dataplane.rx_buffers"}},
    {"MemoryTooSmallForSlotsOfTheDevice",
     "[dataplane]\nmemory_mb = 180\n[[port]]\ndevice = \"net_af_packet1,iface=x,framesz=9216\"\naddresses = [\"192.0.2.2/24\"]\n",
     {"c.toml:15:13: dataplane.memory_mb: 180 does not hold the buffers, which take 463 MiB: 34432 of 9344 bytes for packets, "
      "708 of 32768 for replies of backends; set it to 508 or more, or lower dataplane.rx_buffers"}},
};

INSTANTIATE_TEST_SUITE_P(Check, ConfigProblems, testing::ValuesIn(kCheckCases), [](const auto& test) { return test.param.name; });

TEST(ConfigProblemsOfTheWhole, EmptyFileLacksEverything) {
  EXPECT_EQ(problems_of(""),
            (std::vector<std::string>{"c.toml: port: there is no port; add a [[port]] section with device and addresses; "
                                      "listeners of iWARP and verbs need none",
                                      "c.toml: backend: there is no backend; add a [[backend]] section with name and address",
                                      "c.toml: listener: there is no listener; add a [[listener]] section with backend"}));
}

constexpr const char* kBackend = "[[backend]]\nname = \"nfs\"\naddress = \"127.0.0.1:2049\"\n";

TEST(ConfigProblemsOfTheWhole, ListenersOfIwarpNeedNoPort) {
  const std::string iwarp = "[[listener]]\nbackend = \"nfs\"\ntransport = \"iwarp\"\n";
  EXPECT_EQ(problems_of(std::string(kBackend) + iwarp), std::vector<std::string>());
  EXPECT_EQ(problems_of("[dataplane]\nhugepages = true\n" + std::string(kBackend) + iwarp),
            (std::vector<std::string>{"c.toml:2:13: warning: dataplane.hugepages: has no effect: without a [[port]] DPDK is not "
                                      "started; remove it, or add a [[port]] section"}));
  EXPECT_EQ(problems_of("[dataplane]\nmemory_mb = 64\nrx_buffers = 65536\n" + std::string(kBackend) + iwarp),
            std::vector<std::string>());
}

TEST(ConfigProblemsOfTheWhole, ListenersOfVerbsNeedNoPortAndMayNameADevice) {
  const std::string listener = "[[listener]]\nbackend = \"nfs\"\ndevice = \"rxe0\"\n";
  EXPECT_EQ(problems_of(std::string(kBackend) + listener + "transport = \"verbs\"\naddress = \"192.0.2.1\"\n"),
            std::vector<std::string>());
  EXPECT_EQ(
      problems_of(std::string(kBackend) + listener + "transport = \"iwarp\"\n"),
      (std::vector<std::string>{"c.toml:6:10: warning: listener.device: an RDMA device is for transport = \"verbs\"; remove "
                                "it, or set transport = \"verbs\""}));
}

TEST(ConfigProblemsOfTheWhole, AListenerOfRoceNeedsAPort) {
  EXPECT_EQ(problems_of(std::string(kBackend) + "[[listener]]\nname = \"a\"\nbackend = \"nfs\"\n"),
            (std::vector<std::string>{"c.toml: port: there is no port, and listener 'a' is RoCE; add a [[port]] section with "
                                      "device and addresses, or give the listener transport = \"iwarp\" or \"verbs\""}));
}

TEST(ConfigProblemsOfTheWhole, SingleBracketsAreSaidOnce) {
  const std::vector<std::string> problems = problems_of("[port]\ndevice = \"x\"\n");
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0], "c.toml:1:1: port: is a section that may stand several times; write [[port]] with two brackets");
  for (const std::string& problem : problems) {
    EXPECT_EQ(problem.find("there is no port"), std::string::npos);
  }
}

TEST(ConfigProblemsOfTheWhole, SyntaxErrorTellsWhere) {
  const ParsedConfig parsed = config_parse("[gateway]\ninstance = \n", "c.toml");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].line, 2u);
  EXPECT_TRUE(to_string(parsed.problems[0]).starts_with("c.toml:2:")) << to_string(parsed.problems[0]);
  EXPECT_NE(to_string(parsed.problems[0]).find(": not TOML: "), std::string::npos);
}

TEST(ConfigProblemsOfTheWhole, KeyTwiceIsASyntaxError) {
  EXPECT_EQ(config_parse("[log]\nlevel = \"info\"\nlevel = \"debug\"\n", "c.toml").problems.size(), 1u);
}

TEST(ConfigProblemsOfTheWhole, TooManyListenersAreRefused) {
  std::string text = kGood;
  for (uint32_t i = 1; i <= kListenersMax; ++i) {
    text += "[[listener]]\nname = \"l" + std::to_string(i) + "\"\nport = " + std::to_string(i) + "\nbackend = \"nfs\"\n";
  }
  const ParsedConfig parsed = config_parse(text, "c.toml");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].message, "17 sections are too many");
  EXPECT_EQ(parsed.problems[0].suggestion, "use at most 16");
}

}  // namespace
}  // namespace cw::control
