#include "telemetry/history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

using Json = nlohmann::json;

constexpr int64_t kStarted = 1'700'000'000'000;

// A gateway of two cores whose counters the test sets, looked at once a second.
class Looks {
 public:
  Looks() : cores_(2), history_(cores_.sources(), kStarted) {}
  template <typename Change>
  void look(Change&& change, Duration after = Duration::seconds(1)) {
    change(state_);
    cores_.publish([this](CoreSnapshot& out) { out = state_; });
    now_ = now_ + after;
    history_.record(cores_.sources(), now_);
  }
  void look() {
    look([](CoreSnapshot&) {});
  }
  [[nodiscard]] Json json(uint64_t since = 0) const { return Json::parse(history_.to_json(since)); }
  [[nodiscard]] const History& history() const { return history_; }

 private:
  SyntheticCores cores_;
  CoreSnapshot state_{};
  Instant now_;
  History history_;
};

TEST(History, CountersAreWhatTheyGrewByAndGaugesWhatTheyWere) {
  Looks looks;
  looks.look([](CoreSnapshot& core) { core.rc.packets_retransmitted = 100; });
  looks.look([](CoreSnapshot& core) {
    core.rc.packets_retransmitted = 107;
    core.rpcrdma.credits_granted = 32;
  });
  looks.look([](CoreSnapshot& core) { core.rpcrdma.credits_granted = 16; }, Duration::ms(1500));
  const Json json = looks.json();
  EXPECT_EQ(json["boot"], std::to_string(kStarted));
  EXPECT_EQ(json["next"], 2);
  EXPECT_EQ(json["interval_ms"], Json({1000, 1500}));
  EXPECT_EQ(json["time_ms"], Json({kStarted + 1000, kStarted + 2500}));
  EXPECT_EQ(json["values"]["retransmitted_packets"], Json({14, 0})) << "of both cores together";
  EXPECT_EQ(json["values"]["credits_granted"], Json({64, 32}));
}

// What a reload brings has columns from then on, and what was before stays where it is.
TEST(History, SectionsThatComeHaveColumns) {
  SyntheticCores cores(1);
  MetricSources sources = cores.sources();
  History history(sources, kStarted);
  uint64_t seconds = 0;
  const auto look = [&](uint64_t connections) {
    cores.publish([&](CoreSnapshot& out) {
      out.gateway.clients[0].connections = connections;
      out.gateway.clients[1].connections = 10 * connections;
      out.gateway.clients[1].refused_limit = connections;
      out.durations.stages.stages[0].record(Duration::us(5));
    });
    history.record(sources, Instant::from_ns(static_cast<int64_t>(++seconds) * 1'000'000'000));
  };
  look(1);
  look(2);
  const size_t before = history.memory_bytes();
  sources.clients[0].removed = true;
  sources.clients.push_back({"guests"});
  look(3);
  look(5);
  const Json values = Json::parse(history.to_json(0))["values"];
  EXPECT_EQ(values["client_connections.cluster"], Json({2, 3, 5}));
  EXPECT_EQ(values["client_connections.guests"], Json({0, 30, 50}));
  EXPECT_EQ(values["client_refused.guests"], Json({0, 3, 2})) << "a counter begins at 0";
  EXPECT_EQ(values[std::string("stage_calls.") + to_string(static_cast<rpcrdma::Stage>(0))].size(), 3u);
  EXPECT_GT(history.memory_bytes(), before);
}

TEST(History, ColumnsOfZeroesAreLeftOut) {
  Looks looks;
  looks.look();
  looks.look();
  EXPECT_EQ(looks.json()["values"], Json::object());
}

// They take no network and no disk: among the others they would make every backend look quick.
TEST(History, DurationsOfBuiltInProgramsStandApart) {
  Looks looks;
  looks.look([](CoreSnapshot&) {});
  looks.look([](CoreSnapshot& core) {
    core.durations.calls[rpcrdma::procedure_row(536922878, 1, 1, 0)].record(Duration::us(5));
    core.durations.calls[rpcrdma::procedure_row(100003, 3, 6, 0)].record(Duration::ms(3));
  });
  const Json json = looks.json();
  EXPECT_EQ(json["durations"], Json::parse("[[" + std::to_string(Histogram::index_of(3'000'000)) + ",2]]"));
  EXPECT_EQ(json["durations_builtin"], Json::parse("[[" + std::to_string(Histogram::index_of(5'000)) + ",2]]"));
}

TEST(History, DurationsAreThoseOfTheSecond) {
  Looks looks;
  looks.look([](CoreSnapshot& core) { core.durations.calls[rpcrdma::procedure_row(100003, 3, 6, 0)].record(Duration::us(100)); });
  looks.look([](CoreSnapshot& core) {
    core.durations.calls[rpcrdma::procedure_row(100003, 3, 6, 0)].record(Duration::us(100));
    core.durations.calls[rpcrdma::procedure_row(100003, 4, 1, 0)].record(Duration::ms(3));
    core.durations.stages.record(rpcrdma::Stage::kBackend, Duration::us(80));
  });
  const Json json = looks.json();
  const uint32_t short_one = Histogram::index_of(100'000);
  const uint32_t long_one = Histogram::index_of(3'000'000);
  EXPECT_EQ(json["durations"], Json::parse("[[" + std::to_string(short_one) + ",2," + std::to_string(long_one) + ",2]]"));
  EXPECT_EQ(json["durations_builtin"], Json::parse("[[]]"));
  EXPECT_EQ(json["bucket_ns"].size(), Histogram::kBucketCount);
  EXPECT_EQ(json["bucket_ns"][short_one], Histogram::lower_ns(short_one));
  EXPECT_EQ(json["values"]["calls.nfs3/read"], Json({2}));
  EXPECT_EQ(json["values"]["call_ns.nfs4/compound"], Json({6'000'000}));
  EXPECT_EQ(json["values"]["stage_calls.backend"], Json({2}));
  EXPECT_EQ(json["values"]["stage_ns.backend"], Json({160'000}));
  const double median = json["values"]["stage_p50_ns.backend"][0];
  EXPECT_NEAR(median, 80'000, 10'000);
}

TEST(History, OnlyWhatIsNewIsGiven) {
  Looks looks;
  for (int i = 0; i < 6; ++i) {
    looks.look();
  }
  const Json json = looks.json(3);
  EXPECT_EQ(json["first"], 3);
  EXPECT_EQ(json["next"], 5);
  EXPECT_EQ(json["time_ms"].size(), 2);
  EXPECT_FALSE(json.contains("bucket_ns"));
  EXPECT_EQ(looks.json(5)["time_ms"].size(), 0);
}

TEST(History, WhoAsksForTheFutureMeansAnotherRunAndGetsAll) {
  Looks looks;
  looks.look();
  looks.look();
  EXPECT_EQ(looks.json(1000)["first"], 0);
  EXPECT_EQ(looks.json(1000)["time_ms"].size(), 1);
}

TEST(History, KeepsFifteenMinutesInTheMemoryOfTheStart) {
  Looks looks;
  EXPECT_EQ(looks.history().memory_bytes(), 0u) << "of a page that was never on";
  looks.look();
  const size_t memory = looks.history().memory_bytes();
  for (uint32_t i = 0; i < History::kSamplesMax + 11; ++i) {
    looks.look([i](CoreSnapshot& core) { core.rc.cnps_sent += i; });
  }
  const Json json = looks.json();
  EXPECT_EQ(json["first"], 11);
  EXPECT_EQ(json["time_ms"].size(), History::kSamplesMax);
  EXPECT_EQ(json["values"]["cnps_tx"][0], 2 * 11);
  EXPECT_EQ(json["values"]["cnps_tx"][History::kSamplesMax - 1], 2 * (History::kSamplesMax + 10));
  EXPECT_EQ(looks.history().memory_bytes(), memory);
  EXPECT_LT(memory, 3u << 20);
}

// A page that is turned on late: its samples are of the time when they were taken.
TEST(History, TheFirstLookMayComeLate) {
  SyntheticCores cores(1);
  const Instant started = Instant::from_ns(5'000'000'000);
  History history(cores.sources(), kStarted, started);
  EXPECT_EQ(Json::parse(history.to_json(0))["time_ms"], Json::array());
  history.record(cores.sources(), started + Duration::seconds(100));
  history.record(cores.sources(), started + Duration::seconds(101));
  EXPECT_EQ(Json::parse(history.to_json(0))["time_ms"], Json({kStarted + 101'000}));
}

TEST(History, BackendsAndCoresHaveColumnsOfTheirOwn) {
  SyntheticCores cores(2);
  History history(cores.sources(), kStarted);
  const auto look = [&](int64_t second) {
    uint64_t core = 0;
    cores.publish([&](CoreSnapshot& out) {
      out = {};
      ++core;
      out.loop.busy_ns = static_cast<uint64_t>(second) * core * 1000;
      out.gateway.backends[1].up = core - 1;
      out.gateway.backends[0].open_failures = 1;
    });
    history.record(cores.sources(), Instant::from_ns(second * 1'000'000'000));
  };
  look(1);
  look(2);
  const Json values = Json::parse(history.to_json(0))["values"];
  EXPECT_EQ(values["lcore_busy_ns.0"], Json({1000}));
  EXPECT_EQ(values["lcore_busy_ns.1"], Json({2000}));
  EXPECT_EQ(values["backend_state.nfs"], Json({static_cast<int>(BackendState::kDown)}));
  EXPECT_EQ(values["backend_state.bench"], Json({static_cast<int>(BackendState::kUp)})) << "one core that knows is enough";
}

TEST(HistoryColumns, NamesAreDistinctAndEachReadsSomethingElse) {
  SyntheticCores cores(1);
  cores.publish(fill_synthetic);
  const MetricSources sources = cores.sources();
  const HistoryColumns columns(sources);
  std::vector<uint64_t> values(columns.count());
  columns.read(sources, values);
  std::set<std::string> names;
  std::set<uint64_t> seen;
  for (uint32_t i = 0; i < columns.count(); ++i) {
    EXPECT_TRUE(names.insert(columns.name(i)).second) << columns.name(i);
    // Each procedure was called once, both backends are up, and the connections of the only core are those of all.
    if (!columns.name(i).starts_with("calls.") && !columns.name(i).starts_with("backend_state.") &&
        columns.name(i) != "lcore_connections.0") {
      EXPECT_TRUE(seen.insert(values[i]).second) << columns.name(i) << " " << values[i];
    }
  }
}

}  // namespace
}  // namespace cw::telemetry
