// Starts DPDK's environment as the gateway does where there is nothing: no hugepages, no devices.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "dataplane/dpdk/eal.h"

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  cw::dataplane::EalSettings settings;
  settings.instance = "causeway-test-" + std::to_string(getpid());
  settings.memory_mb = 128;
  std::string error;
  if (!cw::dataplane::start_eal(settings, error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  cw::dataplane::stop_eal();
  return result;
}
