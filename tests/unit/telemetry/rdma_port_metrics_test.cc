#include "telemetry/rdma_port_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "telemetry/exposition.h"
#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

std::vector<prometheus::MetricFamily> metrics_of(const std::string& folder, const std::vector<std::string>& devices) {
  return rdma_port_metrics(folder, rdma_port_states(folder, devices));
}

std::map<std::string, double> series_of(const SyntheticRdma& rdma, const std::vector<std::string>& devices) {
  std::map<std::string, double> series;
  for (const control::NamedValue& value : flatten(metrics_of(rdma.folder(), devices))) {
    EXPECT_TRUE(series.emplace(value.name, value.value).second) << "series twice: " << value.name;
  }
  return series;
}

TEST(RdmaPortMetrics, EveryCounterIsASeriesOfItsOwn) {
  SyntheticRdma rdma;
  rdma.add_port("mlx5_0", "1", "4: ACTIVE", 1000);
  const auto series = series_of(rdma, {"mlx5_0"});
  EXPECT_EQ(series.size(), rdma_port_counters().size() + 1);
  EXPECT_EQ(series.at("causeway_rdma_port_active{device=\"mlx5_0\",port=\"1\"}"), 1);
  EXPECT_EQ(series.at("causeway_rdma_port_packets_total{device=\"mlx5_0\",port=\"1\",direction=\"rx\"}"), 1000);
  EXPECT_EQ(series.at("causeway_rdma_port_packets_total{device=\"mlx5_0\",port=\"1\",direction=\"tx\"}"), 1001);
  EXPECT_EQ(series.at("causeway_rdma_port_receive_errors_total{device=\"mlx5_0\",port=\"1\"}"), 1004);
  EXPECT_EQ(series.at("causeway_rdma_port_events_total{device=\"mlx5_0\",port=\"1\",event=\"duplicate_request\"}"), 1007);
}

// IBTA's counters of data count words of four bytes; those of drivers count bytes.
TEST(RdmaPortMetrics, BytesAreBytes) {
  SyntheticRdma rdma;
  rdma.write("mlx5_0/ports/1/counters/port_rcv_data", "250\n");
  rdma.write("mlx5_0/ports/1/counters/port_xmit_data", "18446744073709551615\n");
  rdma.write("bnxt_re0/ports/1/hw_counters/rx_bytes", "250\n");
  const auto series = series_of(rdma, {"mlx5_0", "bnxt_re0"});
  EXPECT_EQ(series.size(), 3u) << "no state, no series of it";
  EXPECT_EQ(series.at("causeway_rdma_port_bytes_total{device=\"mlx5_0\",port=\"1\",direction=\"rx\"}"), 1000);
  EXPECT_EQ(series.at("causeway_rdma_port_bytes_total{device=\"mlx5_0\",port=\"1\",direction=\"tx\"}"),
            4 * 18446744073709551615.0);
  EXPECT_EQ(series.at("causeway_rdma_port_bytes_total{device=\"bnxt_re0\",port=\"1\",direction=\"rx\"}"), 250);
}

// 0 would be a statement, and nobody has made it.
TEST(RdmaPortMetrics, WhatTheKernelDoesNotSayHasNoSeries) {
  SyntheticRdma rdma;
  rdma.write("siw0/ports/1/state", "4: ACTIVE\n");
  rdma.write("siw0/ports/1/counters/port_rcv_packets", "N/A (no PMA)\n");
  rdma.write("siw0/ports/1/counters/port_rcv_errors", "");
  rdma.write("siw0/ports/1/counters/link_downed", "12x\n");
  rdma.write("siw0/ports/1/counters/port_xmit_discards", "7");
  const auto series = series_of(rdma, {"siw0"});
  EXPECT_EQ(series,
            (std::map<std::string, double>{{"causeway_rdma_port_active{device=\"siw0\",port=\"1\"}", 1},
                                           {"causeway_rdma_port_transmit_discards_total{device=\"siw0\",port=\"1\"}", 7}}));
  rdma.remove("siw0");
  EXPECT_TRUE(metrics_of(rdma.folder(), {"siw0"}).empty()) << "a device that has gone";
}

TEST(RdmaPortMetrics, AFamilyWithoutASeriesIsLeftOut) {
  SyntheticRdma rdma;
  rdma.write("siw0/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(metrics_of(rdma.folder(), {"siw0"}).size(), 1u);
  EXPECT_TRUE(metrics_of(rdma.folder() + "/none", {""}).empty());
}

TEST(RdmaPortMetrics, DriversHaveNamesOfTheirOwn) {
  SyntheticRdma rdma;
  rdma.write("rxe0/ports/1/hw_counters/rcvd_pkts", "11\n");
  rdma.write("rxe0/ports/1/hw_counters/rcvd_seq_err", "12\n");
  rdma.write("rxe0/ports/1/hw_counters/link_downed", "13\n");
  rdma.write("irdma0/ports/1/hw_counters/RxECNMrkd", "14\n");
  rdma.write("mlx5_0/ports/1/hw_counters/link_downed", "15\n");
  rdma.write("mlx5_0/ports/1/counters/link_downed", "16\n");
  const auto series = series_of(rdma, {"rxe0", "irdma0", "mlx5_0"});
  EXPECT_EQ(series.at("causeway_rdma_port_packets_total{device=\"rxe0\",port=\"1\",direction=\"rx\"}"), 11);
  EXPECT_EQ(series.at("causeway_rdma_port_events_total{device=\"rxe0\",port=\"1\",event=\"packet_seq_err\"}"), 12);
  EXPECT_EQ(series.at("causeway_rdma_port_link_downed_total{device=\"rxe0\",port=\"1\"}"), 13);
  EXPECT_EQ(series.at("causeway_rdma_port_events_total{device=\"irdma0\",port=\"1\",event=\"ecn_marked\"}"), 14);
  EXPECT_EQ(series.at("causeway_rdma_port_link_downed_total{device=\"mlx5_0\",port=\"1\"}"), 16) << "the first that has a number";
}

TEST(RdmaPortMetrics, StateOfEachPort) {
  SyntheticRdma rdma;
  rdma.write("mlx5_0/ports/1/state", "4: ACTIVE\n");
  rdma.write("mlx5_0/ports/2/state", "2: INIT\n");
  const auto series = series_of(rdma, {"mlx5_0"});
  EXPECT_EQ(series.at("causeway_rdma_port_active{device=\"mlx5_0\",port=\"1\"}"), 1);
  EXPECT_EQ(series.at("causeway_rdma_port_active{device=\"mlx5_0\",port=\"2\"}"), 0);
}

TEST(RdmaPortMetrics, DevicesAreThoseThatAreNamedOrAll) {
  SyntheticRdma rdma;
  rdma.write("rxe0/ports/1/state", "4: ACTIVE\n");
  rdma.write("rxe1/ports/1/state", "1: DOWN\n");
  EXPECT_EQ(series_of(rdma, {"rxe1", "rxe1"}).size(), 1u) << "two listeners on one device";
  EXPECT_EQ(series_of(rdma, {"rxe1", ""}).size(), 2u);
  EXPECT_EQ(series_of(rdma, {}).size(), 0u);
}

TEST(RdmaPortMetrics, TheNumberOfSeriesIsBounded) {
  SyntheticRdma rdma;
  for (size_t device = 0; device < kRdmaDevicesMax + 2; ++device) {
    for (size_t port = 1; port < kRdmaPortsMax + 3; ++port) {
      rdma.write("rxe" + std::to_string(device) + "/ports/" + std::to_string(port) + "/state", "4: ACTIVE\n");
    }
  }
  EXPECT_EQ(series_of(rdma, {""}).size(), kRdmaDevicesMax * kRdmaPortsMax);
}

// Scrapes ask for the devices of the listeners that there are.
TEST(RdmaPortMetrics, AReloadTellsTheCollectorOfItsDevices) {
  SyntheticRdma rdma;
  rdma.write("rxe0/ports/1/state", "4: ACTIVE\n");
  rdma.write("rxe1/ports/1/state", "4: ACTIVE\n");
  SyntheticCores cores(1);
  MetricSources sources = cores.sources();
  sources.rdma_folder = rdma.folder();
  Collector collector(sources);
  const auto has = [&collector](const std::string& device) {
    const std::string text = to_prometheus(collector.Collect());
    return text.find("causeway_rdma_port_active{device=\"" + device + "\",port=\"1\"} 1") != std::string::npos;
  };
  EXPECT_TRUE(has("rxe0") && !has("rxe1"));
  collector.set_limits({.listeners = {{.name = "nfs", .rdma_device = ""}}});
  EXPECT_TRUE(has("rxe0") && has("rxe1"));
  collector.set_limits({.listeners = {{.name = "nfs"}}});
  EXPECT_FALSE(has("rxe0") || has("rxe1"));
}

}  // namespace
}  // namespace cw::telemetry
